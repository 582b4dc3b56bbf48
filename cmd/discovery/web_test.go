package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// pageConnections is how many connections a port for pages keeps.
const pageConnections = 64

// Connections without a request, without a further one, or with only half a request are closed for new ones:
// descriptors stay free for ADS, and /ready answers.
func TestConnectionsThatWaitAreBounded(t *testing.T) {
	s := startServe(t, "--configDir", t.TempDir())
	s.await(t, http.StatusOK)
	request := fmt.Sprintf("GET /ready HTTP/1.1\r\nHost: %s\r\n\r\n", s.web)
	var open []net.Conn
	for i := range 4 * pageConnections {
		conn, err := net.Dial("tcp", s.web)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, []string{"", request, request[:10]}[i%3]); err != nil && i < pageConnections {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	s.await(t, http.StatusOK)
	kept := 0
	for _, conn := range open {
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			kept++
		}
	}
	if kept > pageConnections {
		t.Errorf("%d connections that wait are kept, want at most %d", kept, pageConnections)
	}
	s.stop(t)
}
