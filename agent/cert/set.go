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

	"github.com/pilotlight/pilotlight/internal/safefile"
)

// longestFile is the size limit of a file, in bytes: the roots of a whole distribution have 0.3 MB.
const longestFile = 4 << 20

// ReadFile reads a file of certificates, of 4 MiB at most.
func ReadFile(path string) ([]byte, error) { return safefile.Read(path, longestFile) }

// Set is a set of files, and the last observation of them. A Set must not be copied.
type Set struct {
	Files
	Optional bool // its directory is a default: if it is missing, the workload has no such certificates

	NoRoots bool // the roots may be missing: the workload has no use for them, or can do without

	proven atomic.Pointer[Observation] // of the last certificates that Envoy has, or that a new epoch gets
	absent atomic.Bool
	seen   atomic.Pointer[Observation]
	held   atomic.Pointer[Held]
}

// Held is the last certificate of a set that had no fault. Envoy goes on using it whatever comes after it in the files.
type Held struct {
	Info
	Ends  time.Time `json:"Ends"`  // the certificate, or the first one of its chain
	Until time.Time `json:"Until"` // when its files got a fault; zero while they have none
}

// Held returns the certificate that Envoy uses while the files have a fault. It is nil while they have none, and before
// there was a good one. A process that started at from, after the fault, cannot have read it: for one that gets its
// certificates from the agent, from is the zero time.
func (s *Set) Held(from time.Time) *Held {
	held := s.held.Load()
	if s.Fault() == "" || held == nil || !held.Until.IsZero() && from.After(held.Until) {
		return nil
	}
	return held
}

// None reports whether the workload has no such certificates.
func (s *Set) None() bool {
	seen := s.seen.Load()
	return s.absent.Load() || seen != nil && s.none(seen)
}

// none reports whether a default directory has other files only.
func (s *Set) none(seen *Observation) bool {
	return s.Optional && seen.Err == nil && len(seen.Missing) == len(s.needed(s.NoRoots))
}

// observed takes an observation.
func (s *Set) observed(o *Observation, now time.Time) {
	s.seen.Store(o)
	s.absent.Store(false)
	switch held := s.held.Load(); {
	case o.Fault() == "" && !o.Infos[0].Ends.IsZero():
		s.held.Store(&Held{Info: o.Infos[0], Ends: o.Infos[0].Ends})
	case o.Fault() != "" && held != nil && held.Until.IsZero():
		lost := *held
		lost.Until = now
		s.held.Store(&lost)
	}
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
	case s.none(seen):
		return ""
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

// Held returns when the first of the certificates ends that Envoy uses while their files have a fault. It is zero if there
// is no fault, or if one of the sets with a fault has no such certificate. For from see Set.Held.
func (s Sets) Held(from time.Time) (ends time.Time) {
	for _, set := range s {
		if set.Fault() == "" {
			continue
		}
		held := set.Held(from)
		if held == nil {
			return time.Time{}
		}
		if ends.IsZero() || held.Ends.Before(ends) {
			ends = held.Ends
		}
	}
	return ends
}

// None reports whether the workload has no certificates at all.
func (s Sets) None() bool {
	for _, set := range s {
		if !set.None() {
			return false
		}
	}
	return true
}

// Contents are the contents of Files; nil for a missing file, or one that the set does not have.
type Contents struct {
	Chain []byte `json:"Chain"`
	Key   []byte `json:"Key"`
	Roots []byte `json:"Roots"`
}

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

// Carried is what another image of the agent needs to know of a Set.
type Carried struct {
	Hash  string `json:"Hash"`  // of the last certificates that Envoy has; empty for none
	Infos []Info `json:"Infos"` // of them
	Held  *Held  `json:"Held"`
}

// Carry returns it.
func (s *Set) Carry() (c Carried) {
	if proven := s.proven.Load(); proven != nil {
		c.Hash, c.Infos = proven.Hash, proven.Infos
	}
	c.Held = s.held.Load()
	return c
}

// Resume goes on with what another image knew. It must be called before Follow.
func (s *Set) Resume(c Carried) {
	if c.Hash != "" && len(c.Infos) > 0 {
		s.proven.Store(&Observation{Hash: c.Hash, Infos: c.Infos})
	}
	if c.Held != nil {
		s.held.Store(c.Held)
	}
}
