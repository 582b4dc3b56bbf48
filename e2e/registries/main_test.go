//go:build registries

package registries

import (
	"os"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const stopLimit = 30 * time.Second

func TestMain(m *testing.M) {
	lab.Main(m, lab.Suite{Name: "e2e/registries", Programs: []string{"./examples/bookinfo", "./examples/bookinfo/demo"}})
}

// needs fails a test whose registry is not there.
func needs(t *testing.T, name string) string {
	t.Helper()
	path := lab.Path("bin", "registries", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make e2e-registries, which fetches it", err)
	}
	return path
}
