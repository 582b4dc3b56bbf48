package lab

import (
	"os"
	"testing"
)

// ShortDir makes a directory with a path short enough for a socket in it.
func ShortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pilotlight-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
