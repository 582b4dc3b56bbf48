package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// files are what an epoch leaves in configPath while it lives.
type files struct {
	bootstrap string
	admin     string // Envoy makes it
}

func filesOf(dir string, epoch int) files {
	return files{
		bootstrap: filepath.Join(dir, fmt.Sprintf("envoy-rev%d.json", epoch)),
		admin:     AdminSocket(dir, epoch),
	}
}

// AdminSocket is the path of an epoch's admin.
func AdminSocket(dir string, epoch int) string {
	return filepath.Join(dir, fmt.Sprintf("admin-rev%d.sock", epoch))
}

func (f files) remove() error {
	var errs []error
	for _, path := range []string{f.bootstrap, f.admin} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// writeFile replaces path by rename, so that no reader sees half of it. It is readable by its owner only, since a
// bootstrap may hold secrets. It is not synced: after a crash of the machine it is written anew.
func writeFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	temp, err := os.CreateTemp(dir, ".envoy-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			os.Remove(temp.Name())
		}
	}()
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(temp.Name(), path)
}
