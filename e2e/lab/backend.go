package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Backend is an HTTP server whose answer describes the request.
type Backend struct {
	Name, IP string
	Port     int
	Requests atomic.Int64
	Status   atomic.Int64 // of its answers
	Delay    atomic.Int64 // before an answer
	server   *http.Server
}

// Echo is the answer of a backend: the request as it was received.
type Echo struct {
	Backend, Host, Path string
	Header              http.Header
}

// Backend starts a backend at an address of its own, at a port that the kernel chooses.
func (w *World) Backend(name string) *Backend {
	w.T.Helper()
	return w.BackendAt(w.Address(), name)
}

// BackendAt starts a backend at this address.
func (w *World) BackendAt(ip, name string) *Backend {
	w.T.Helper()
	b := &Backend{Name: name, IP: ip}
	l, err := net.Listen("tcp", b.IP+":0")
	w.Check(err)
	b.Serve(w, l)
	return b
}

// Serve answers at l until the test ends.
func (b *Backend) Serve(w *World, l net.Listener) {
	b.Status.Store(200)
	b.Port = l.Addr().(*net.TCPAddr).Port
	b.server = &http.Server{Handler: b, ErrorLog: log.New(io.Discard, "", 0)} // failed handshakes are the tests' own
	go b.server.Serve(l)
	w.T.Cleanup(func() { b.server.Close() })
}

// ServeHTTP answers after the backend's delay with its status. A request may ask for others by the headers x-delay and x-status.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.Requests.Add(1)
	d, status := time.Duration(b.Delay.Load()), int(b.Status.Load())
	if own, err := time.ParseDuration(r.Header.Get("x-delay")); err == nil {
		d = own
	}
	if own, err := strconv.Atoi(r.Header.Get("x-status")); err == nil {
		status = own
	}
	if d > 0 {
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
	}
	w.Header().Set("x-backend", b.Name)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(Echo{b.Name, r.Host, r.URL.RequestURI(), r.Header})
}

// Endpoint is the backend as a ServiceEntry lists it.
func (b *Backend) Endpoint(rest string) string {
	return fmt.Sprintf("{address: %s, ports: {http: %d}, labels: {version: %s}%s}", b.IP, b.Port, b.Name, rest)
}
