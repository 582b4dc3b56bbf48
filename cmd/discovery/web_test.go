package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
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
	var closed atomic.Int64
	for _, conn := range open {
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			closed.Add(1)
		}()
	}
	// The time that a request may take ends some of them as well, after ten seconds.
	if err := lab.Eventually(5*time.Second, func() error {
		if kept := len(open) - int(closed.Load()); kept > pageConnections {
			return fmt.Errorf("%d connections that wait are kept, want at most %d", kept, pageConnections)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	s.stop(t)
}
