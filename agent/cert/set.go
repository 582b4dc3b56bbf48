package cert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/internal/regular"
)

// longestFile is the size limit of a file, in bytes: the roots of a whole distribution have 0.3 MB.
const longestFile = 4 << 20

// ReadFile reads a file of certificates, of 4 MiB at most.
func ReadFile(path string) ([]byte, error) { return regular.Read(path, longestFile) }

// Set is a set of files, and the last observation of them. A Set must not be copied.
type Set struct {
	Files
	Optional bool // its directory is a default: if it is missing, the workload has no such certificates

	absent atomic.Bool
	seen   atomic.Pointer[Observation]
}

// Seen returns the last observation; nil before the first one, and if the workload has no such certificates.
func (s *Set) Seen() *Observation { return s.seen.Load() }

// Check reads the files again, and returns their fault. It returns nil if neither chain nor key exists.
func (s *Set) Check(now time.Time) error {
	contents, err := s.Read()
	if err != nil {
		return err
	}
	if contents.Chain == nil && contents.Key == nil {
		return nil
	}
	if _, err := contents.Check(now); err != nil {
		return fmt.Errorf("check certificates in %s: %w", s.dir(), err)
	}
	return nil
}

// Fault returns the fault in the last observation, empty for none. Files that were not read yet count as faulty.
func (s *Set) Fault() string {
	seen := s.seen.Load()
	switch {
	case s.absent.Load():
		return ""
	case seen == nil:
		return "the certificates in " + s.dir() + " have not been looked at yet"
	case seen.Err == nil && len(seen.Missing) == len(s.Paths()) && s.Optional:
		return "" // a default directory with other files
	}
	return seen.Fault()
}

// Fault returns the fault of the observed files, empty for none.
func (o *Observation) Fault() string {
	switch {
	case o.Err != nil:
		return o.Err.Error()
	case len(o.Missing) > 0:
		return "missing: " + strings.Join(o.Missing, ", ")
	}
	return ""
}

func (s *Set) dir() string { return filepath.Dir(s.Chain) }

// missing reports whether the workload has no such certificates.
func (s *Set) missing() bool {
	_, err := os.Stat(s.dir())
	return s.Optional && err != nil
}

// Sets are all sets of a proxy.
type Sets []*Set

// Check checks each of them, as before an epoch is started.
func (s Sets) Check(now time.Time) error {
	for _, set := range s {
		if err := set.Check(now); err != nil {
			return err
		}
	}
	return nil
}

// Fault returns the first fault of the sets, empty for none.
func (s Sets) Fault() string {
	for _, set := range s {
		if fault := set.Fault(); fault != "" {
			return fault
		}
	}
	return ""
}

// Contents are the contents of Files; nil for a missing file, or one that the set does not have.
type Contents struct{ Chain, Key, Roots []byte }

// Check calls the function Check with the contents.
func (c Contents) Check(now time.Time) (Info, error) { return Check(c.Chain, c.Key, c.Roots, now) }

// Read reads the files. A missing file is no error.
func (f Files) Read() (c Contents, err error) {
	for _, file := range []struct {
		path string
		to   *[]byte
	}{{f.Chain, &c.Chain}, {f.Key, &c.Key}, {f.Roots, &c.Roots}} {
		if file.path == "" {
			continue
		}
		data, err := ReadFile(file.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Contents{}, fmt.Errorf("read certificate: %w", err)
		}
		*file.to = data
	}
	return c, nil
}
