package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

const longest = 4 << 20 // bytes of a file

// Open reads the authority of a directory, or makes one where the directory has none of its files or is missing.
func Open(dir string, now time.Time) (authority State, made bool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return State{}, false, fmt.Errorf("make the directory of the authority: %w", err)
	}
	if err := judge(dir, false); err != nil {
		return State{}, false, err
	}
	if authority, err = Read(dir, now); !errors.Is(err, errNone) {
		return authority, false, err
	}
	err = locked(dir, func() error {
		authority, err = read(dir, now) // another process may have made it
		if !errors.Is(err, errNone) {
			return err
		}
		made = true
		a, err := newIn(dir, now)
		authority = State{Authority: a, Own: a}
		return err
	})
	return authority, made, err
}

// errNone is the error for a directory without an authority.
var errNone = errors.New("has no authority")

// filesOf reads the files of a generation. It returns errNone where there is none of them.
func filesOf(dir string, generation func(string) string) (f ca.Files, err error) {
	var found, missing []string
	for _, file := range []struct {
		name string
		to   *[]byte
		must bool
	}{{ca.CertFile, &f.Cert, true}, {ca.KeyFile, &f.Key, true}, {ca.RootsFile, &f.Roots, true}, {ca.ChainFile, &f.Chain, false}} {
		name := generation(file.name)
		text, err := safefile.Read(filepath.Join(dir, name), longest)
		switch {
		case err == nil:
			if err := judge(filepath.Join(dir, name), file.name == ca.KeyFile); err != nil {
				return ca.Files{}, err
			}
			found = append(found, name)
			*file.to = text
		case !errors.Is(err, fs.ErrNotExist):
			return ca.Files{}, err
		case file.must:
			missing = append(missing, name)
		}
	}
	switch {
	case len(found) == 0:
		return ca.Files{}, fmt.Errorf("%s: %w", dir, errNone)
	case len(missing) > 0:
		return ca.Files{}, fmt.Errorf("%s: has %s and not %s: a second root is never made; bring the missing files back, or, "+
			"if no certificate was signed with these, remove them", dir, strings.Join(found, ", "), strings.Join(missing, ", "))
	}
	return f, nil
}

// newIn makes an authority in a directory. The certificate comes last: until it is there, nothing is signed.
func newIn(dir string, now time.Time) (*ca.Authority, error) {
	f, err := ca.NewRoot(ca.RootName, ca.RootLife, now)
	if err != nil {
		return nil, err
	}
	authority, err := ca.Read(f, now)
	if err != nil {
		return nil, err
	}
	return authority, do(dir, []change{{ca.KeyFile, f.Key, 0o600}, {ca.RootsFile, f.Roots, 0o644}, {ca.CertFile, f.Cert, 0o644}})
}

const copyFile = "copy.json"

// ReadCopy reads the copy of an authority from a directory that is not the authority's own; zero for none. One that
// another user could have written is refused: it has a key that signs.
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

// WriteCopy writes the copy of an authority, or leaves the one before. It writes no key where another user could
// replace it.
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

// Find returns the files of a directory's authority, and its last rotation that has ended. It takes the lock as Read
// does.
func Find(dir string, at time.Time) (files ca.Files, last ca.Rotation, err error) {
	if _, err = Read(dir, at); err == nil {
		if files, err = filesOf(dir, now); err == nil {
			last, err = Last(dir)
		}
	}
	return files, last, err
}
