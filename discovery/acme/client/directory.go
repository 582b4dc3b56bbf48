package client

import (
	"context"
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
	"github.com/pilotlight/pilotlight/internal/atomicfile"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// Store keeps the records of sets, and the keys of accounts.
type Store interface {
	// Load returns the records by key, nil while they are not known, and those that cannot be read by acme.Set.ID. With
	// an error they are those of before.
	Load() (records map[string]acme.Record, broken map[string]acme.Broken, err error)
	// Term returns a context within which this process may ask issuers, and write. The error acme.ErrFollows says that
	// another process does.
	Term(ctx context.Context) (context.Context, error)
	// Save and Forget fail with acme.ErrTaken where another process has written the record.
	Save(ctx context.Context, r acme.Record) error
	Forget(ctx context.Context, r acme.Record) error
	// Account returns the key of an account at the URL of an issuer, PEM: the one that made gives, if there is none.
	Account(ctx context.Context, issuer, url string, made func() ([]byte, error)) ([]byte, error)
	// Close ends the right to write.
	Close()
}

// Replicas are other processes with the same Store, whose gateways answer questions too.
type Replicas interface {
	Store
	// Say has others know what this one says of its gateways.
	Say(acme.Report)
	Heard() map[string]acme.Heard
	// Name returns that of this one, in Heard.
	Name() string
}

// brokenPause is how long after its last change a set is not asked for whose record cannot be read: nobody knows what
// it was about.
const brokenPause = time.Hour

// Bounds of the directory's files.
const (
	ending  = ".json"
	maxFile = 1 << 20 // bytes
)

// directory is a Store with a file for each set and each account.
type directory struct {
	dir  string
	lock *os.File // nil while another process has it
}

// Directory returns the Store of a directory that one process has.
func Directory(dir string) Store { return &directory{dir: dir} }

// Load reads all sets. Those that cannot be read have the time of their file's last change.
func (s *directory) Load() (all map[string]acme.Record, broken map[string]acme.Broken, err error) {
	all, broken = map[string]acme.Record{}, map[string]acme.Broken{}
	if err := private(s.dir); errors.Is(err, fs.ErrNotExist) {
		return all, broken, nil
	} else if err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		id, is := strings.CutPrefix(strings.TrimSuffix(e.Name(), ending), "set-")
		if !is || !strings.HasSuffix(e.Name(), ending) {
			continue
		}
		var r acme.Record
		err := read(filepath.Join(s.dir, e.Name()), &r)
		if err == nil && r.Set().ID() != id {
			err = fmt.Errorf("read %s: it is of another set", filepath.Join(s.dir, e.Name()))
		}
		if err != nil {
			at := time.Time{}
			if info, err := e.Info(); err == nil {
				at = info.ModTime()
			}
			broken[id] = acme.Broken{Err: err, At: at}
			continue
		}
		all[r.Set().Key()] = r
	}
	return all, broken, nil
}

// read reads a file that belongs to this user alone.
func read(path string, to any) error {
	text, err := safefile.Read(path, maxFile)
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

// Term makes the directory, and takes its lock.
func (s *directory) Term(ctx context.Context) (context.Context, error) {
	if s.lock != nil {
		return ctx, nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	if err := private(s.dir); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: another discovery has it (%w): each needs a --stateDir of its own", file.Name(), err), file.Close())
	}
	s.lock = file
	return ctx, nil
}

// Close ends the lock.
func (s *directory) Close() {
	if s.lock != nil {
		_ = s.lock.Close() // nothing was written into it
		s.lock = nil
	}
}

// Save writes the record of a set.
func (s *directory) Save(_ context.Context, r acme.Record) error { return s.write(fileOf(r.Set()), r) }

// Forget removes it.
func (s *directory) Forget(_ context.Context, r acme.Record) error {
	return os.Remove(filepath.Join(s.dir, fileOf(r.Set())))
}

// storedAccount is an account as its file has it.
type storedAccount struct {
	URL string `json:"URL"`
	Key string `json:"Key"`
}

// Account returns the key of an account, which is kept before the issuer hears of it.
func (s *directory) Account(_ context.Context, issuer, url string, made func() ([]byte, error)) ([]byte, error) {
	var kept storedAccount
	name := accountFile(issuer, url)
	err := read(filepath.Join(s.dir, name), &kept)
	switch {
	case err == nil:
		return []byte(kept.Key), nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	text, err := made()
	if err != nil {
		return nil, err
	}
	kept.URL, kept.Key = url, string(text)
	return text, s.write(name, kept)
}

// write writes a file whole and synced, or leaves the one before.
func (s *directory) write(name string, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	at := filepath.Join(s.dir, name)
	return atomicfile.Write(at+".new", at, text, 0o600)
}

// fileOf returns the name of the file of a set.
func fileOf(s acme.Set) string { return "set-" + s.ID() + ending }

// accountFile returns the name of the file of an account at an issuer.
func accountFile(issuer, url string) string {
	sum := sha256.Sum256([]byte(url))
	return "account-" + issuer + "-" + hex.EncodeToString(sum[:4]) + ending
}
