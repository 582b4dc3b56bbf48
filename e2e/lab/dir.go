package lab

import (
	"os"
	"testing"
)

// ShortDir is a directory whose path leaves room for a socket's name.
func ShortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pilotlight-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
