package client

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/discovery/acme"
	"github.com/pilotlight/pilotlight/internal/durable"
	"github.com/pilotlight/pilotlight/internal/regular"
)

// Bounds of the directory's files.
const (
	ending  = ".json"
	maxFile = 1 << 20 // bytes
)

// brokenPause is how long after its last change a set is not asked for whose file cannot be read: nobody knows what it was about.
const brokenPause = time.Hour

// store has a file for each set and each account.
type store struct {
	dir  string
	lock *os.File // nil while another process has it
}

// load reads all sets, by key. broken are the faults of files that cannot be read, by name, with when they last changed.
func (s *store) load() (all map[string]acme.Record, broken map[string]fault, err error) {
	all, broken = map[string]acme.Record{}, map[string]fault{}
	if err := private(s.dir); errors.Is(err, fs.ErrNotExist) {
		return all, broken, nil
	} else if err != nil {
		return all, broken, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return all, broken, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "set-") || !strings.HasSuffix(e.Name(), ending) {
			continue
		}
		var r acme.Record
		err := read(filepath.Join(s.dir, e.Name()), &r)
		if err == nil && nameOf(r.Set().Key()) != e.Name() {
			err = fmt.Errorf("read %s: it is of another set", filepath.Join(s.dir, e.Name()))
		}
		if err != nil {
			at := time.Time{}
			if info, err := e.Info(); err == nil {
				at = info.ModTime()
			}
			broken[e.Name()] = fault{err, at}
			continue
		}
		all[r.Set().Key()] = r
	}
	return all, broken, nil
}

// fault is one of a file that changed last at a time.
type fault struct {
	error
	at time.Time
}

// read reads a file that belongs to this user alone.
func read(path string, to any) error {
	text, err := regular.Read(path, maxFile)
	if err == nil {
		err = private(path)
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// private reports why a file or directory with keys may not be used.
func private(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	of, known := info.Sys().(*syscall.Stat_t)
	switch {
	case known && int(of.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, want %d: it has keys", path, of.Uid, os.Geteuid())
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%s has mode %04o, want one that lets nobody else in: it has keys", path, info.Mode().Perm())
	}
	return nil
}

// own makes the directory, and takes its lock.
func (s *store) own() error {
	if s.lock != nil {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := private(s.dir); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("lock %s: another discovery has it (%w): each needs a --stateDir of its own", file.Name(), err), file.Close())
	}
	s.lock = file
	return nil
}

// free ends the lock.
func (s *store) free() {
	if s.lock != nil {
		_ = s.lock.Close() // nothing was written into it
		s.lock = nil
	}
}

// save writes the record of a set.
func (s *store) save(r acme.Record) error { return s.write(nameOf(r.Set().Key()), r) }

// forget removes it.
func (s *store) forget(key string) error { return os.Remove(filepath.Join(s.dir, nameOf(key))) }

// write writes a file whole and synced, or leaves the one before.
func (s *store) write(name string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	at := filepath.Join(s.dir, name)
	file, err := durable.Create(at+".new", 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", at, err)
	}
	if _, err = file.Write(text); err == nil {
		err = durable.Take(file, at)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", at, errors.Join(err, durable.Drop(file)))
	}
	return file.Close()
}

// nameOf returns the name of the file of a set.
func nameOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "set-" + hex.EncodeToString(sum[:16]) + ending
}

// accountFile returns the name of the file of an account at an issuer.
func accountFile(i Issuer) string {
	sum := sha256.Sum256([]byte(i.URL))
	return "account-" + i.Name + "-" + hex.EncodeToString(sum[:4]) + ending
}
