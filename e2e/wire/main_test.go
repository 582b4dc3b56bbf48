//go:build wire

package wire

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

const stopLimit = 30 * time.Second

func TestMain(m *testing.M) {
	lab.Main(m, lab.Suite{Name: "e2e/wire", Programs: []string{"./e2e/wire/peer", "./examples/bookinfo"}, Need: findPeers})
}

// findPeers looks for what fetch-peers fetches.
func findPeers() error {
	for _, name := range []string{"pilot-agent", "pilot-discovery", "envoy_bootstrap.json", "validation.jsonl", "simulation", "java", "java-1.68.0", "python"} {
		if _, err := os.Stat(lab.Path("bin", "peers", name)); err != nil {
			return fmt.Errorf("%w: run make e2e-wire, which fetches it", err)
		}
	}
	return nil
}
