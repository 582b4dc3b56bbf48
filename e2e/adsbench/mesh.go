package main

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// mesh is a directory of made-up services, a file for each; every tenth has two subsets and a rule that splits between
// them. They are in namespaces, in turn.
type mesh struct {
	dir                             string
	services, endpoints, namespaces int
	later                           bool // after larger changes
}

// written returns the services that write makes, by number, and the generation of each. Later a tenth of them are gone,
// as many are new, and half have another endpoint.
func (m mesh) written() iter.Seq2[int, int] {
	return func(yield func(i, generation int) bool) {
		for i := range m.services {
			generation := 0
			if m.later {
				i += m.services / 10
				generation = i % 2
			}
			if !yield(i, generation) {
				return
			}
		}
	}
}

// write makes all files, and takes away what changes have added.
func (m mesh) write() error {
	wanted := map[string]bool{}
	for i, generation := range m.written() {
		path, text := m.path(i), m.service(i, generation, 50)
		wanted[filepath.Base(path)] = true
		if was, err := os.ReadFile(path); err == nil && string(was) == text {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write mesh: %w", err)
		}
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return fmt.Errorf("write mesh: %w", err)
	}
	for _, e := range entries {
		if !wanted[e.Name()] {
			if err := os.Remove(filepath.Join(m.dir, e.Name())); err != nil {
				return fmt.Errorf("write mesh: %w", err)
			}
		}
	}
	return nil
}

// change puts another form of a service in the place of its file, or adds one.
func (m mesh) change(i, generation int, weight int32) error {
	next := filepath.Join(m.dir, ".next") // which is hidden
	if err := os.WriteFile(next, []byte(m.service(i, generation, weight)), 0o600); err != nil {
		return fmt.Errorf("write mesh: %w", err)
	}
	if err := os.Rename(next, m.path(i)); err != nil {
		return fmt.Errorf("write mesh: %w", err)
	}
	return nil
}

func (m mesh) path(i int) string { return filepath.Join(m.dir, name(i)+".yaml") }

func name(i int) string { return fmt.Sprintf("service-%04d", i) }

func (m mesh) host(i int) string {
	return name(i) + "." + namespaceOf(i, m.namespaces) + ".svc.cluster.local"
}

// namespaceOf is that of service i, and of proxy i, where there are n.
func namespaceOf(i, n int) string {
	if n <= 1 {
		return "default"
	}
	return fmt.Sprintf("namespace-%d", i%n)
}

// address is that of endpoint j of service i; the first of each is a proxy of the fleet.
func address(i, j int) string { return fmt.Sprintf("10.%d.%d.%d", j+1, i/250, i%250+1) }

// service writes one with a generation of its last endpoint, and a weight of its first subset.
func (m mesh) service(i, generation int, weight int32) string {
	var b strings.Builder
	object := func(kind string) {
		fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: %s\nmetadata:\n  name: %s\n  namespace: %s\n"+
			"  creationTimestamp: %s\nspec:\n", kind, name(i), namespaceOf(i, m.namespaces), time.Unix(int64(i), 0).UTC().Format(time.RFC3339))
	}
	object("ServiceEntry")
	fmt.Fprintf(&b, "  hosts:\n  - %s\n  location: MESH_INTERNAL\n  resolution: STATIC\n"+
		"  ports:\n  - number: 80\n    name: http\n    protocol: HTTP\n  endpoints:\n", m.host(i))
	for j := range m.endpoints {
		port := 8080
		if j == m.endpoints-1 {
			port += generation
		}
		fmt.Fprintf(&b, "  - address: %s\n    ports:\n      http: %d\n    labels:\n      version: v%d\n", address(i, j), port, j%2+1)
	}
	if i%10 > 0 {
		return b.String()
	}
	object("DestinationRule")
	fmt.Fprintf(&b, "  host: %s\n  subsets:\n", m.host(i))
	for version := 1; version <= 2; version++ {
		fmt.Fprintf(&b, "  - name: v%d\n    labels:\n      version: v%d\n", version, version)
	}
	object("VirtualService")
	fmt.Fprintf(&b, "  hosts:\n  - %s\n  http:\n  - route:\n", m.host(i))
	for version, weight := range []int32{weight, 100 - weight} {
		fmt.Fprintf(&b, "    - destination:\n        host: %s\n        subset: v%d\n      weight: %d\n", m.host(i), version+1, weight)
	}
	return b.String()
}
