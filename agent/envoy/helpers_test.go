package envoy

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// patient is far above the duration of any step on a machine that is busy with other tests.
const patient = 30 * time.Second

func envoyBinary(t *testing.T) string {
	t.Helper()
	binary, err := lab.FindEnvoy()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await polls until other processes have reached a state.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	if err := lab.Eventually(patient, func() error {
		if !condition() {
			return fmt.Errorf("%s: no", what)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// newBaseID returns a free base-id whose segment is removed after the test.
func newBaseID(t *testing.T) hotrestart.BaseID {
	t.Helper()
	f, err := hotrestart.NewBaseID()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(f.Segment()) })
	return f
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
