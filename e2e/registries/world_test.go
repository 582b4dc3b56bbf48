//go:build registries

package registries

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// world is the parts of one test, our discovery that reads them, and a sidecar.
type world struct {
	*lab.Trial
	configDir string // "" for none
	discovery *lab.Discovery
	proxy     string // host:port of the sidecar's outbound HTTP
	admin     string // host:port of its Envoy's admin
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{Trial: lab.NewTrial(t)}
}

func (w *world) check(err error) {
	w.T.Helper()
	w.Check(err)
}

func (w *world) port() int {
	w.T.Helper()
	port, err := lab.FreePort()
	w.check(err)
	return port
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// serve starts discovery with a registry, or several.
func (w *world) serve(flags ...string) {
	w.T.Helper()
	w.discovery = w.Serve(w.configDir, flags...)
}

// sidecar starts an agent with its Envoy, and waits until it is ready.
func (w *world) sidecar(flags ...string) {
	w.T.Helper()
	w.sidecarAs("client", 1, flags...)
}

// sidecarAs starts one of a name at an address of its own.
func (w *world) sidecarAs(name string, last int, flags ...string) {
	w.T.Helper()
	port := w.port()
	w.proxy = local(port)
	s, err := w.Sidecar(lab.Workload{
		Name: name, App: "client", Version: "v1", IP: fmt.Sprint(w.Addresses, last), ProxyPort: port, Discovery: w.discovery.GRPC, Flags: flags,
	})
	w.check(err)
	w.StopAtEnd("agent", s)
	w.check(s.AwaitReady())
	w.admin = s.Admin
}

// backend is an HTTP server that answers with its name, and at /health with the given answer.
type backend struct {
	name, ip string
	port     int
	sick     atomic.Bool
}

// backend starts one at a port of an address of its own.
func (w *world) backend(name string, last, port int) *backend {
	w.T.Helper()
	return w.backendAt(name, fmt.Sprint(w.Addresses, last), port)
}

func (w *world) backendAt(name, ip string, port int) *backend {
	w.T.Helper()
	b := &backend{name: name, ip: ip, port: port}
	listener, err := net.Listen("tcp", fmt.Sprintf("%s:%d", b.ip, port))
	w.check(err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" && b.sick.Load() {
			out.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(out, b.name)
	}))
	w.check(server.Listener.Close())
	server.Listener = listener
	server.Start()
	w.T.Cleanup(server.Close)
	return b
}

// answers waits until a number of requests in a row are answered by these backends, each of them at least once, and by no other.
func (w *world) answers(url string, backends ...string) {
	w.T.Helper()
	w.check(lab.Eventually(30*time.Second, func() error {
		got := map[string]int{}
		for range 10 * len(backends) {
			body, err := lab.GetThrough(w.proxy, url)
			if err != nil {
				return err
			}
			got[body]++
		}
		for _, name := range backends {
			if got[name] == 0 || len(got) != len(backends) {
				return fmt.Errorf("answered by %v, want %s", got, strings.Join(backends, " and "))
			}
		}
		return nil
	}))
}

// unavailable waits until twenty requests in a row get Envoy's answer of a service without a healthy instance.
func (w *world) unavailable(url string) {
	w.T.Helper()
	w.check(lab.Eventually(30*time.Second, func() error {
		for range 20 {
			if body, err := lab.GetThrough(w.proxy, url); err == nil || !strings.Contains(err.Error(), "no healthy upstream") {
				return fmt.Errorf("the answer is %q, %v: want 503, no healthy upstream", body, err)
			}
		}
		return nil
	}))
}

// load sends requests through the sidecar until unharmed.
func (w *world) load(url string) *lab.Load { return lab.StartLoad(w.proxy, url, 2, 1) }

// thousand waits until a load has had a thousand further answers.
func (w *world) thousand(load *lab.Load) {
	w.T.Helper()
	before := load.Requests()
	w.check(lab.Eventually(time.Minute, func() error {
		if n := load.Requests() - before; n < 1000 {
			return fmt.Errorf("%d requests were answered, want 1,000", n)
		}
		return nil
	}))
}
