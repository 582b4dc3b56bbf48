package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

const (
	rotationFile  = ca.RotationFile
	progressAgain = 10 * time.Second
)

// State is an authority as it is stored.
type State ca.State

func now(name string) string { return name }

func next(name string) string { return ca.NextName(name) }

// rotationOf reads the rotation of a directory; zero for none.
func rotationOf(dir string) (ca.Rotation, error) { return rotationIn(dir, rotationFile) }

func rotationIn(dir, name string) (ca.Rotation, error) {
	path := filepath.Join(dir, name)
	text, err := safefile.Read(path, longest)
	if errors.Is(err, fs.ErrNotExist) {
		return ca.Rotation{}, nil
	}
	if err != nil {
		return ca.Rotation{}, err
	}
	r, err := ca.ReadRotation(text)
	if err != nil {
		return ca.Rotation{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// read reads an authority. While a root is rotated, the rotation alone says which generation signs: its step is one
// rename.
func read(dir string, at time.Time) (State, error) {
	r, err := rotationOf(dir)
	if err != nil {
		return State{}, err
	}
	files, err := filesOf(dir, now)
	switch {
	case err != nil && r.Phase != "":
		return State{}, fmt.Errorf("a root is being rotated: %s", err) // no errNone: then a root would be made
	case err != nil:
		return State{}, err
	}
	var coming ca.Files
	if r.Phase != "" {
		if coming, err = filesOf(dir, next); err != nil {
			return State{}, fmt.Errorf("a root is being rotated, its successor: %s", err)
		}
	}
	state, err := ca.ReadState(files, coming, r, at)
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", dir, err)
	}
	return State(state), nil
}

// Read reads the authority of a directory. Unlike Open it makes none. It takes the lock only where it finds fault,
// since another process may be writing the files: the directory may be mounted, and have no lock.
func Read(dir string, at time.Time) (state State, err error) {
	if state, err = read(dir, at); err == nil || errors.Is(err, errNone) {
		return state, err
	}
	if fault := locked(dir, func() error {
		state, err = read(dir, at)
		return nil
	}); errors.Is(fault, errHeld) {
		return State{}, errors.Join(err, fault)
	}
	return state, err
}

// Last returns the last rotation of a directory that has ended; zero for none.
func Last(dir string) (ca.Rotation, error) { return rotationIn(dir, ca.LastFile) }

// Rotate begins to replace the root of a directory, or returns the rotation that is under way.
func Rotate(dir string, again bool, at time.Time) (r ca.Rotation, err error) {
	err = locked(dir, func() error {
		var changes []change
		if r, changes, err = toBegin(dir, again, at); err != nil {
			return err
		}
		return do(dir, changes)
	})
	return r, err
}

// toBegin returns the rotation of a directory, and the changes that begin it; none where it is under way. The next
// generation does not count before the rotation is written.
func toBegin(dir string, again bool, at time.Time) (ca.Rotation, []change, error) {
	if err := readable(dir, ca.KeyFile); err != nil {
		return ca.Rotation{}, nil, err
	}
	state, err := read(dir, at)
	if err != nil || state.Rotation.Phase != "" {
		return state.Rotation, nil, err
	}
	last, err := safefile.Read(filepath.Join(dir, ca.LastFile), longest)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ca.Rotation{}, nil, err
	}
	files, r, err := ca.BeginRotation(state.Authority, last, again, at)
	if err != nil {
		return ca.Rotation{}, nil, err
	}
	text, err := r.Bytes()
	return r, []change{
		{next(ca.KeyFile), files.Key, 0o600},
		{next(ca.RootsFile), files.Roots, 0o644},
		{next(ca.CertFile), files.Cert, 0o644},
		{rotationFile, text, 0o600},
		{ca.RootsFile, ca.BothRoots(state.Authority.Roots(), files.Roots), 0o644},
	}, err
}

// readable returns an error where root would write files that the user of discovery could not read. That user owns the
// first of the named files that is there, or else the directory.
func readable(dir string, names ...string) error {
	for _, name := range append(names, ".") {
		info, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := mine(int(info.Sys().(*syscall.Stat_t).Uid), os.Geteuid()); err != nil {
			return fmt.Errorf("%s %w", filepath.Join(dir, name), err)
		}
		return nil
	}
	return nil
}

// mine returns an error where root would write files that their owner could not read.
func mine(owner, user int) error {
	if user == 0 && owner != 0 {
		return fmt.Errorf("belongs to the user %d, who could not read what root writes: run the command as that user", owner)
	}
	return nil
}

// Abort ends a rotation whose new root has signed nothing.
func Abort(dir string, at time.Time) error {
	return locked(dir, func() error {
		changes, err := toAbort(dir, at)
		if err != nil {
			return err
		}
		return do(dir, changes)
	})
}

func toAbort(dir string, at time.Time) ([]change, error) {
	state, err := read(dir, at)
	if err == nil {
		err = state.Rotation.Abort()
	}
	if err != nil {
		return nil, err
	}
	coming, err := filesOf(dir, next)
	if err != nil {
		return nil, err
	}
	return append([]change{{ca.RootsFile, bytes.Replace(state.Authority.Roots(), coming.Roots, nil, 1), 0o644}},
		removed(rotationFile, next(ca.CertFile), next(ca.KeyFile), next(ca.RootsFile))...), nil
}

// Step does what is due of a rotation, as far as it goes, and returns what is stored then.
func Step(dir string, o ca.Observed, at time.Time) (state State, err error) {
	if r, err := rotationOf(dir); err != nil || r.Phase == "" { // without the lock: this is asked often
		return State{}, err
	}
	err = locked(dir, func() error {
		var changes []change
		if state, changes, err = toStep(dir, o, at); err != nil || len(changes) == 0 {
			return err
		}
		if err = do(dir, changes); err == nil {
			state, err = read(dir, at)
		}
		return err
	})
	return state, err
}

// toStep returns what is stored, and the changes that are due. After the first of them, which is the rotation, the step
// is done: the others may be repeated.
func toStep(dir string, o ca.Observed, at time.Time) (State, []change, error) {
	state, err := read(dir, at)
	if err != nil || state.Rotation.Phase == "" {
		return state, nil, err
	}
	r := state.Rotation.Step(o, at)
	same := r.Phase == state.Rotation.Phase && r.Phase != ca.Forget
	if same && (r.Waits == state.Rotation.Waits || recent(dir, at)) {
		return state, nil, nil
	}
	text, err := r.Bytes()
	if err != nil {
		return State{}, nil, err
	}
	changes := []change{{rotationFile, text, 0o600}}
	if r.Phase != ca.Forget { // roots again: Rotate may have been broken off before
		return state, append(changes, change{ca.RootsFile, state.Authority.Roots(), 0o644}), nil
	}
	end, err := toForget(dir, text)
	return state, append(changes, end...), err
}

// toForget returns the changes after which there is only the next generation.
func toForget(dir string, rotation []byte) ([]change, error) {
	coming, err := filesOf(dir, next)
	changes := []change{{ca.KeyFile, coming.Key, 0o600}, {ca.RootsFile, coming.Roots, 0o644}, {ca.CertFile, coming.Cert, 0o644}, {ca.LastFile, rotation, 0o600}}
	return append(changes, removed(ca.ChainFile, rotationFile, next(ca.CertFile), next(ca.KeyFile), next(ca.RootsFile))...), err
}

// EndNow ends the rotation of a directory at once, whether agents trust the new root or not. Without a rotation it
// stores that the root of the files is to be used at once where they have replaced others.
func EndNow(dir string, at time.Time) (r ca.Rotation, err error) {
	err = locked(dir, func() error {
		var changes []change
		if r, changes, err = toEndNow(dir, at); err != nil {
			return err
		}
		return do(dir, changes)
	})
	return r, err
}

func toEndNow(dir string, at time.Time) (ca.Rotation, []change, error) {
	if err := readable(dir, ca.KeyFile); err != nil {
		return ca.Rotation{}, nil, err
	}
	state, err := read(dir, at)
	if err != nil {
		return ca.Rotation{}, nil, err
	}
	r := state.Rotation.EndNow(state.Authority.Root(), at)
	text, err := r.Bytes()
	if err != nil || state.Rotation.Phase == "" {
		return r, []change{{ca.LastFile, text, 0o600}}, err
	}
	end, err := toForget(dir, text)
	return r, append([]change{{rotationFile, text, 0o600}}, end...), err
}

// recent reports whether the rotation was written just before: how far it is changes with every certificate.
func recent(dir string, at time.Time) bool {
	info, err := os.Stat(filepath.Join(dir, rotationFile))
	return err == nil && at.Sub(info.ModTime()) < progressAgain
}
