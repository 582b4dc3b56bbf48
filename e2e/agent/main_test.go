package agent

import (
	"testing"

	"github.com/pilotlight/pilotlight/e2e/crd"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

func TestMain(m *testing.M) {
	lab.Main(m, lab.Suite{Name: "e2e/agent", Programs: []string{"./examples/bookinfo"}})
}

// world is discovery with what these tests ask of it.
type world struct{ *lab.World }

func newWorld(t *testing.T, flags ...string) *world {
	t.Helper()
	return &world{lab.NewWorld(t, crd.Sound, flags...)}
}
