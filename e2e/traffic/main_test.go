package traffic

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/crd"
	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
)

func TestMain(m *testing.M) {
	lab.Main(m, lab.Suite{Name: "e2e/traffic", Programs: []string{"./examples/bookinfo", "./examples/bookinfo/demo"}})
}

// world is discovery with what these tests ask of it.
type world struct {
	*lab.World
	asked  int  // requests that were compared with explain
	atOnce int  // so many of them
	shared bool // several Envoys listen at the addresses of services: replay sends requests to a proxy's own HTTP port alone
}

// newWorld starts discovery. Without a MeshConfig of the test's own Envoys write the access log that replay reads, as with truth.Logged in one.
func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	if !slices.Contains(flags, "--meshConfig") {
		settings := filepath.Join(t.TempDir(), "mesh.yaml")
		if err := os.WriteFile(settings, []byte(truth.Logged), 0o644); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "--meshConfig", settings)
	}
	return &world{atOnce: truth.AtOnce, World: lab.NewWorld(t, crd.Sound, flags...)}
}
