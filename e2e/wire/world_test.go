//go:build wire

package wire

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// world is a directory of configuration and, where the test wants it, our discovery that serves it.
type world struct {
	*lab.Trial
	config    string
	discovery *lab.Discovery
	secure    string // host:port of discovery's mutual TLS
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Trial: lab.NewTrial(t)}
	w.config = filepath.Join(w.Dir, "config")
	w.check(os.MkdirAll(w.config, 0o755))
	return w
}

// serve starts discovery.
func (w *world) serve(flags ...string) {
	w.T.Helper()
	w.discovery = w.Serve(w.config, flags...)
}

func (w *world) check(err error) {
	w.T.Helper()
	w.Check(err)
}

// write replaces a file of the configuration, as an editor does: a new file renamed over the old one.
func (w *world) write(name, text string) {
	w.T.Helper()
	temporary := filepath.Join(w.Dir, name+".new")
	w.check(os.WriteFile(temporary, []byte(text), 0o644))
	w.check(os.Rename(temporary, filepath.Join(w.config, name)))
}

// backend starts an HTTP server that answers with its name, and returns its port of 127.0.0.1.
func (w *world) backend(name string) int {
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, name) }))
	w.T.Cleanup(server.Close)
	return portOf(server.Listener.Addr().String())
}

func portOf(address string) (port int) {
	fmt.Sscan(address[strings.LastIndexByte(address, ':')+1:], &port)
	return port
}

// start starts a process that is stopped with the test, and whose log is shown when the test has failed.
func (w *world) start(s lab.Spec) *lab.Process {
	w.T.Helper()
	s.Dir = w.Dir
	p, err := lab.Start(s)
	w.check(err)
	w.StopAtEnd(p.Name, p)
	return p
}

// answers waits until a request through a proxy is answered by a backend.
func (w *world) answers(proxy, url, backend string) {
	w.T.Helper()
	w.check(lab.Eventually(30*time.Second, func() error {
		got, err := lab.GetThrough(proxy, url)
		if err == nil && got != backend {
			err = fmt.Errorf("answered by %q, want %q", got, backend)
		}
		return err
	}))
}

// load sends requests through a proxy, once they are answered by a backend, until unharmed.
func (w *world) load(proxy, url, backend string) *lab.Load {
	w.T.Helper()
	w.answers(proxy, url, backend)
	return lab.StartLoad(proxy, url, 2, 1)
}
