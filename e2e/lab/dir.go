package lab

import (
	"errors"
	"os"
	"path/filepath"
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

// RemoveSockets removes the sockets of an agent and its Envoys below a directory, as a cleaner of /run may.
func RemoveSockets(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type()&os.ModeSocket != 0 {
			err = os.Remove(path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // its process has just ended
		}
		return err
	})
}
