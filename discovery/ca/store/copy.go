package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

const copyFile = "copy.json"

// ReadCopy reads the copy of an authority from a directory that is not the authority's own; zero for none. One that another user could have written
// is refused: it has a key that signs.
func ReadCopy(dir string, at time.Time) (ca.Copy, error) {
	path := filepath.Join(dir, copyFile)
	text, err := safefile.Read(path, longest)
	if errors.Is(err, fs.ErrNotExist) {
		return ca.Copy{}, nil
	}
	if err == nil {
		err = judge(path, true)
	}
	if err != nil {
		return ca.Copy{}, err
	}
	c, err := ca.ReadCopy(text, at)
	if err != nil {
		return ca.Copy{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// WriteCopy writes the copy of an authority, or leaves the one before. It writes no key where another user could replace it.
func WriteCopy(dir string, c ca.Copy) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := judge(dir, false); err != nil {
		return err
	}
	text, err := c.Bytes()
	if err != nil {
		return err
	}
	return locked(dir, func() error { return write(dir, copyFile, text, 0o600) }) // another discovery may have the directory
}

// Find returns the files of a directory's authority, and its last rotation that has ended. It takes the lock as Read does.
func Find(dir string, at time.Time) (files ca.Files, last ca.Rotation, err error) {
	if _, err = Read(dir, at); err == nil {
		if files, err = filesOf(dir, now); err == nil {
			last, err = Last(dir)
		}
	}
	return files, last, err
}
