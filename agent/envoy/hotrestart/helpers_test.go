package hotrestart

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

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

func newToken() string { return rand.Text() }

func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, _ := e.Info()
		t.Errorf("left behind: %s", fs.FormatFileInfo(info))
	}
}
