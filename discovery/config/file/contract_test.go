package file

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/sourcetest"
)

// The store keeps the contract of a source, as any registry does.
func TestContract(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T) sourcetest.Registry {
		dir := filepath.Join(t.TempDir(), "mesh")
		must(t, os.Mkdir(dir, 0o755))
		source := New(dir, 0, slog.New(slog.DiscardHandler))
		write := func(name, text string) {
			path := filepath.Join(dir, name+".yaml")
			must(t, os.WriteFile(path+"~", []byte(text), 0o644))
			must(t, os.Rename(path+"~", path))
		}
		put := func(name, address string) {
			write(name, fmt.Sprintf("{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: %s}, spec: {resolution: STATIC, "+
				"hosts: [%s.test], ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: %s}]}}", name, name, address))
		}
		return sourcetest.Registry{
			Lose: func(names ...string) { // as a link to another directory does
				must(t, os.CopyFS(dir+".next", os.DirFS(dir)))
				for _, name := range names {
					must(t, os.Remove(filepath.Join(dir+".next", name+".yaml")))
				}
				must(t, os.Rename(dir, dir+".before"))
				must(t, os.Rename(dir+".next", dir))
			},
			Source: source,
			Host:   func(name string) string { return name + ".test" },
			Put:    put,
			Delete: func(name string) { must(t, os.Remove(filepath.Join(dir, name+".yaml"))) },
			Spoil:  func(name string) { put(name, "not an address") },
			Break:  func() { must(t, os.Rename(dir, dir+".away")) },
			Mend:   func() { must(t, os.Rename(dir+".away", dir)) },
			Touch:  func() { put("a", "10.0.0.1") },
			Faults: func() []string { return source.Status().Lines() },
		}
	})
}
