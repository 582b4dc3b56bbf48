package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// change is a change of a file: another content, or, without content, that there is no such file.
type change struct {
	name    string
	content []byte
	mode    os.FileMode
}

func removed(names ...string) (out []change) {
	for _, name := range names {
		out = append(out, change{name: name})
	}
	return out
}

// do makes changes, in their order. It ends with the first one that fails: what is made of a directory by the first ones alone is a state
// from which it goes on.
func do(dir string, changes []change) error {
	for _, c := range changes {
		if c.content != nil {
			if err := write(dir, c.name, c.content, c.mode); err != nil {
				return err
			}
		} else if err := os.Remove(filepath.Join(dir, c.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
