package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// backend is a server of HTTP that says what it was asked.
type backend struct {
	name, ip string
	port     int
	requests atomic.Int64
	status   atomic.Int64 // what it answers
	delay    atomic.Int64 // before it answers
	server   *http.Server
}

// echo is what a backend answers.
type echo struct {
	Backend, Host, Path string
	Header              http.Header
}

func (w *world) backend(name string) *backend {
	w.t.Helper()
	return w.backendAt(w.address(), name)
}

func (w *world) backendAt(ip, name string) *backend {
	w.t.Helper()
	b := &backend{name: name, ip: ip}
	l, err := net.Listen("tcp", b.ip+":0")
	w.check(err)
	b.serve(w, l)
	return b
}

// serve answers at l until the test ends.
func (b *backend) serve(w *world, l net.Listener) {
	b.status.Store(200)
	b.port = l.Addr().(*net.TCPAddr).Port
	b.server = &http.Server{Handler: b, ErrorLog: log.New(io.Discard, "", 0)} // failed handshakes are the tests' own
	go b.server.Serve(l)
	w.t.Cleanup(func() { b.server.Close() })
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.requests.Add(1)
	if d := time.Duration(b.delay.Load()); d > 0 {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	w.Header().Set("x-backend", b.name)
	w.WriteHeader(int(b.status.Load()))
	json.NewEncoder(w).Encode(echo{b.name, r.Host, r.URL.RequestURI(), r.Header})
}

// endpoint is the backend as a ServiceEntry lists it.
func (b *backend) endpoint(rest string) string {
	return fmt.Sprintf("{address: %s, ports: {http: %d}, labels: {version: %s}%s}", b.ip, b.port, b.name, rest)
}
