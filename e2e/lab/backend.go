package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
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

// Service declares a host on HTTP port 80 with these backends as its endpoints.
func (w *World) Service(host string, backends ...*Backend) {
	w.T.Helper()
	var endpoints []string
	for _, b := range backends {
		endpoints = append(endpoints, b.Endpoint(""))
	}
	w.ServiceOf(host, "HTTP", endpoints...)
}

// ServiceOf declares a host at port 80 of a protocol, with endpoints as a ServiceEntry lists them.
func (w *World) ServiceOf(host, protocol string, endpoints ...string) {
	w.T.Helper()
	w.Apply("ServiceEntry "+host, fmt.Sprintf("hosts: [%s]\nlocation: MESH_INTERNAL\nresolution: STATIC\nports: [{number: 80, name: http, protocol: %s}]\nendpoints: [%s]",
		host, protocol, strings.Join(endpoints, ", ")))
}

// HealthServer starts a gRPC server that is healthy, until the test ends, and returns its host:port.
func HealthServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}
