package proxy

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
)

// What an image of the agent leaves to the next one stays as it is when a field is renamed in Go.
func TestStoredState(t *testing.T) {
	golden.Stored(t, golden.Filled[carried](slog.LevelWarn, netip.MustParseAddrPort("127.0.0.1:15090")))
}
