package plane

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

// Kubernetes' objects in a directory are a registry like any other.
func TestManifestsContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Registry {
		dir := filepath.Join(t.TempDir(), "mesh")
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(os.Mkdir(dir, 0o755))
		last := map[string]string{} // addresses: a Service that is malformed has the endpoints of now
		put := func(name, ports, address string) {
			last[name] = address
			path := filepath.Join(dir, name+".yaml")
			check(os.WriteFile(path+"~", fmt.Appendf(nil, "{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {ports: %s}}\n---\n"+
				"{apiVersion: v1, kind: Endpoints, metadata: {name: %s}, subsets: [{addresses: [{ip: %s}], ports: [{name: http, port: 80}]}]}\n",
				name, ports, name, address), 0o644))
			check(os.Rename(path+"~", path))
		}
		const ports = "[{name: http, port: 80}]"
		source := newStore(dir, "", 0, nil, slog.New(slog.DiscardHandler))
		return sourcetest.Registry{
			Source: source,
			Host:   func(name string) string { return name + ".default.svc.cluster.local" },
			Put:    func(name, address string) { put(name, ports, address) },
			Delete: func(name string) { check(os.Remove(filepath.Join(dir, name+".yaml"))) },
			Spoil:  func(name string) { put(name, "[{name: http, port: 70000}]", cmp.Or(last[name], "10.0.0.1")) },
			Break:  func() { check(os.Rename(dir, dir+".away")) },
			Mend:   func() { check(os.Rename(dir+".away", dir)) },
			Touch:  func() { put("a", ports, "10.0.0.1") },
			Faults: func() []string { return source.Status().Lines() },
		}
	})
}
