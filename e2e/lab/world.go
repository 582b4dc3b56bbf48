package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// World is discovery with a directory of configuration, backends inside the test, and Envoys that discovery configures
// without an agent: for tests of the translation.
type World struct {
	Lab
	T         *testing.T
	Config    string     // directory that discovery serves
	Env       []string   // of Envoys
	Discovery *Discovery // shadows the function of the lab that starts it
	API       string     // of ADS, "DELTA_GRPC"; "GRPC" where it is ""
	Domain    string     // DNS domain of the cluster of Envoys; "cluster.local" where it is ""

	judge     func(text []byte) error
	addresses string
	next      int
}

// NewWorld starts discovery with these flags. judge returns the faults of a file of objects: it is called before
// discovery can read the file, since a test with a refused file would prove nothing. When the test ends it is an error
// if an Envoy has rejected a response of discovery.
func NewWorld(t *testing.T, judge func(text []byte) error, flags ...string) *World {
	t.Helper()
	dir := t.TempDir()
	w := &World{Lab: New(dir), T: t, Config: filepath.Join(dir, "config"), judge: judge, addresses: Addresses()}
	w.Check(os.MkdirAll(w.Config, 0o755))
	var err error
	w.Discovery, err = w.Lab.Discovery(w.Config, flags...)
	w.Check(err)
	t.Cleanup(func() {
		w.Discovery.Stop(StopLimit)
		log := w.Discovery.Log()
		if strings.Contains(log, "response refused") || strings.Contains(log, "proxy refuses a part") {
			t.Errorf("an Envoy refused what discovery sent:\n%s", log)
		}
	})
	return w
}

// Check ends the test with an error, if there is one.
func (w *World) Check(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Address returns a loopback address that no other caller has.
func (w *World) Address() string {
	w.next++
	return fmt.Sprintf("%s%d", w.addresses, w.next)
}

// Apply writes objects, given as kind and name and then as the spec's YAML, each into a file of its own.
func (w *World) Apply(objects ...string) {
	w.T.Helper()
	for i := 0; i+1 < len(objects); i += 2 {
		kind, name, _ := strings.Cut(objects[i], " ")
		w.write(fileOf(kind, name), objects[i:i+2])
	}
}

// ApplyAtOnce writes objects into one file, so that discovery takes them as one change.
func (w *World) ApplyAtOnce(file string, objects ...string) {
	w.T.Helper()
	w.write(file, objects)
}

// write replaces a file of the configuration, as an editor does: a new file renamed over the old one.
func (w *World) write(file string, objects []string) {
	w.T.Helper()
	text := documents(objects)
	if err := w.judge([]byte(text)); err != nil {
		w.T.Fatalf("%v\n%s", err, text)
	}
	path := filepath.Join(w.Config, file)
	w.Check(os.WriteFile(path+"~", []byte(text), 0o644))
	w.Check(os.Rename(path+"~", path))
}

// documents returns the YAML of objects. The specs have Go's indentation: the tabs in front of their lines are removed.
func documents(objects []string) string {
	var text strings.Builder
	for i := 0; i+1 < len(objects); i += 2 {
		kind, name, _ := strings.Cut(objects[i], " ")
		spec := strings.ReplaceAll(strings.Trim(objects[i+1], "\n\t "), "\n\t\t", "\n")
		group := "networking"
		if strings.HasSuffix(kind, "Authentication") || strings.HasSuffix(kind, "Policy") {
			group = "security"
		}
		fmt.Fprintf(&text, "---\napiVersion: %s.istio.io/v1\nkind: %s\nmetadata: {name: %s}\nspec:\n  %s\n",
			group, kind, name, strings.ReplaceAll(strings.ReplaceAll(spec, "\t", ""), "\n", "\n  "))
	}
	return text.String()
}

// fileOf returns the name of an object's file: "serviceentry-app.test.yaml".
func fileOf(kind, name string) string { return strings.ToLower(kind) + "-" + name + ".yaml" }

// Remove removes the file of an object that Apply has written.
func (w *World) Remove(kind, name string) {
	w.T.Helper()
	w.Check(os.Remove(filepath.Join(w.Config, fileOf(kind, name))))
}

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
