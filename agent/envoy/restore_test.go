package envoy

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// A slot whose directory was removed or moved has one again, with its lock, also in a configPath that is open to others; so has one whose configPath was moved.
func TestRestore(t *testing.T) {
	for name, mode := range map[string]os.FileMode{"ours alone": 0o755, "open to others": 0o777} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "configPath")
			if err := os.Mkdir(path, mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			s, err := Claim(path, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Release() })
			aside := t.TempDir()
			for i, harm := range []func() error{
				func() error { return os.RemoveAll(s.name) },
				func() error { return os.RemoveAll(path) },
				func() error { return os.Rename(s.name, filepath.Join(aside, "slot")) },
				func() error { return os.Rename(path, filepath.Join(aside, "path")) },
				func() error {
					return errors.Join(os.Rename(path, filepath.Join(aside, "swapped")), os.Mkdir(path, mode), os.Chmod(path, mode))
				},
			} {
				if err := harm(); err != nil {
					t.Fatal(i, err)
				}
				if err := s.Restore(); err != nil {
					t.Fatal(i, err)
				}
				if err := os.WriteFile(filepath.Join(s.Dir(), "file"), nil, 0o600); err != nil {
					t.Error(err)
				}
				for _, want := range []string{"file", lockName} {
					if _, err := os.Stat(filepath.Join(s.name, want)); err != nil {
						t.Error(err)
					}
				}
				os.Remove(filepath.Join(s.name, "file"))
			}
		})
	}
}
