package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/e2e/crd"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// world is discovery with a directory of configuration, backends inside the test, and Envoys that discovery configures
// without an agent: what is shown is the translation.
type world struct {
	lab.Lab
	t         *testing.T
	addresses string
	next      int
	config    string
	env       []string // of Envoys
	discovery *lab.Discovery
	api       string // of ADS; GRPC where it is ""
}

func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{Lab: lab.Lab{Bin: bin, Envoy: envoy, Dir: dir}, t: t, addresses: lab.Addresses(), config: filepath.Join(dir, "config")}
	w.check(os.MkdirAll(w.config, 0o755))
	var err error
	w.discovery, err = w.Discovery(w.config, flags...)
	w.check(err)
	t.Cleanup(func() {
		w.discovery.Stop(stopLimit)
		log := w.discovery.Log()
		if strings.Contains(log, "response refused") || strings.Contains(log, "proxy refuses a part") {
			t.Errorf("an Envoy refused what discovery sent:\n%s", log)
		}
	})
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// address returns a loopback address that nobody else has.
func (w *world) address() string {
	w.next++
	return fmt.Sprintf("%s%d", w.addresses, w.next)
}

// apply writes objects, given as kind and name and then as the spec's YAML, each into a file of its own.
func (w *world) apply(objects ...string) {
	w.t.Helper()
	for i := 0; i+1 < len(objects); i += 2 {
		kind, name, _ := strings.Cut(objects[i], " ")
		w.write(fileOf(kind, name), objects[i:i+2])
	}
}

// applyAtOnce writes objects into one file, so that discovery takes them as one change.
func (w *world) applyAtOnce(file string, objects ...string) {
	w.t.Helper()
	w.write(file, objects)
}

func (w *world) write(file string, objects []string) {
	w.t.Helper()
	var text strings.Builder
	for i := 0; i+1 < len(objects); i += 2 {
		kind, name, _ := strings.Cut(objects[i], " ")
		spec := strings.ReplaceAll(strings.Trim(objects[i+1], "\n\t "), "\n\t\t", "\n")
		fmt.Fprintf(&text, "---\napiVersion: networking.istio.io/v1\nkind: %s\nmetadata: {name: %s}\nspec:\n  %s\n",
			kind, name, strings.ReplaceAll(strings.ReplaceAll(spec, "\t", ""), "\n", "\n  "))
	}
	w.sound(text.String())
	path := filepath.Join(w.config, file)
	w.check(os.WriteFile(path+"~", []byte(text.String()), 0o644))
	w.check(os.Rename(path+"~", path))
}

func fileOf(kind, name string) string { return strings.ToLower(kind) + "-" + name + ".yaml" }

// reference is made once: it reads a megabyte of definitions.
var reference = sync.OnceValues(crd.New)

// sound wants what a test serves to be what discovery and an API server take: a refused file shows nothing.
func (w *world) sound(text string) {
	w.t.Helper()
	if _, problems := config.Decode("", []byte(text)); config.HasErrors(problems) {
		w.t.Fatalf("discovery would not take this: %v\n%s", problems, text)
	}
	server, err := reference()
	w.check(err)
	documents, err := crd.Documents([]byte(text))
	w.check(err)
	for _, document := range documents {
		if faults, known := server.Judge(document); !known || len(faults) > 0 {
			w.t.Fatalf("an API server would not take this: %q\n%s", faults, document)
		}
	}
}

func (w *world) remove(kind, name string) {
	w.t.Helper()
	w.check(os.Remove(filepath.Join(w.config, fileOf(kind, name))))
}

// service declares a host on HTTP port 80 with these backends as its endpoints.
func (w *world) service(host string, backends ...*backend) {
	w.t.Helper()
	var endpoints []string
	for _, b := range backends {
		endpoints = append(endpoints, b.endpoint(""))
	}
	w.serviceOf(host, "HTTP", endpoints...)
}

func (w *world) serviceOf(host, protocol string, endpoints ...string) {
	w.t.Helper()
	w.apply("ServiceEntry "+host, fmt.Sprintf("hosts: [%s]\nlocation: MESH_INTERNAL\nresolution: STATIC\nports: [{number: 80, name: http, protocol: %s}]\nendpoints: [%s]",
		host, protocol, strings.Join(endpoints, ", ")))
}
