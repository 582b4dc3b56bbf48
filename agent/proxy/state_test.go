package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"testing"

	"github.com/pilotlight/pilotlight/agent/handoff"
	"github.com/pilotlight/pilotlight/internal/golden"
)

// full returns a state that has every field.
func full() carried {
	return golden.Filled[carried](slog.LevelWarn, netip.MustParseAddrPort("127.0.0.1:15090"))
}

// What an image of the agent leaves to the next one stays as it is when a field is renamed in Go.
func TestStoredState(t *testing.T) { golden.Stored(t, full()) }

// A state is written as agents of its format write it, and read alike: another text needs another number.
func TestStateOfFormat(t *testing.T) {
	for name, state := range map[string]carried{"full": full(), "empty": {}} {
		got, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprintf("testdata/state-%d-%s.json", handoff.Format, name)
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if want = bytes.TrimSuffix(want, []byte("\n")); !bytes.Equal(got, want) {
			t.Errorf("%s: it is written as\n%s", path, got)
		}
		var read carried
		if err := handoff.Strict(want, &read); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if again, err := json.Marshal(read); err != nil || !bytes.Equal(again, want) {
			t.Errorf("%s: it is read, and written as\n%s, %v", path, again, err)
		}
	}
}
