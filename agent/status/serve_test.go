package status

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// A busy port is an error if it was set, and a warning if it is the default: everything else is served.
func TestServeBusyPort(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, given := range []bool{false, true} {
		var log bytes.Buffer
		path := filepath.Join(t.TempDir(), "socket")
		config := Config{Envoys: ports{}, Envoy: func() http.RoundTripper { return nil }, Log: slog.New(slog.NewTextHandler(&log, nil))}
		own := Ports{Admin: OwnPort{Name: "--proxyAdminPort", Number: busy.Addr().(*net.TCPAddr).Port, Given: given}}
		stop, err := Serve(config, own, path)
		if given {
			if err == nil || !strings.HasPrefix(err.Error(), "--proxyAdminPort: ") || !strings.HasSuffix(err.Error(), "name a free port, or 0 for none") {
				t.Errorf("a port that was asked for: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log.String(), "port not opened") || !strings.Contains(log.String(), "flag=--proxyAdminPort") {
			t.Errorf("a default port: log %q", log.String())
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Errorf("the owner's socket: %v", err)
		} else {
			conn.Close()
		}
		stop()
		if conn, err := net.Dial("unix", path); err == nil {
			conn.Close()
			t.Error("the owner's socket is open after stop")
		}
	}
}
