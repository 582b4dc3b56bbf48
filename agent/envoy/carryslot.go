package envoy

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// CarriedSlot is a slot that another image of the agent goes on to own.
type CarriedSlot struct {
	Dir    string   `json:"Dir"`
	Name   string   `json:"Name"`
	Token  string   `json:"Token"`
	Refuge string   `json:"Refuge"`
	Made   []string `json:"Made"`

	Lock     int    `json:"Lock"`     // files
	Base     int    `json:"Base"`     // configPath, if others may write to it
	BasePath string `json:"BasePath"` // its path
	Opened   int    `json:"Opened"`   // the slot, if Dir leads through its descriptor

	Remaining []child `json:"Remaining"` // of an earlier agent, which could not be killed
}

// Carry gives the files of the slot to a carrier. The result also lists the recorded children that are not among the carried Envoys.
func (s *Slot) Carry(to Carrier, envoys Carried) (CarriedSlot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := CarriedSlot{Dir: s.dir, Name: s.name, Token: s.token, Refuge: s.refuge, Made: s.made, Base: none, Opened: none}
	for _, c := range s.record.Children {
		if !slices.ContainsFunc(envoys.Processes, func(one CarriedProcess) bool { return one.Pid == c.Pid }) {
			out.Remaining = append(out.Remaining, c)
		}
	}
	var errs []error
	given := func(number int, err error) int {
		errs = append(errs, err)
		return number
	}
	out.Lock = given(to.Give(s.lock))
	if s.base != nil {
		out.Base, out.BasePath = given(to.Give(s.base)), s.base.Name()
	}
	if s.opened != nil {
		out.Opened = given(to.GiveSame(s.opened)) // paths lead through the number
	}
	if err := errors.Join(errs...); err != nil {
		return out, fmt.Errorf("pass on the slot: %w", err)
	}
	return out, nil
}

// children are the Envoys as a record has them.
func (c Carried) children() (out []child) {
	for _, one := range c.Processes {
		out = append(out, child{Pid: one.Pid, Start: one.Start, Family: one.Family})
	}
	return out
}

// AdoptSlot takes over the slot of the previous image. It changes nothing on disk: see Renew. The record comes from the previous image, never from the
// lock file, which others may have changed.
func AdoptSlot(c CarriedSlot, envoys Carried, from Carrier, log *slog.Logger) (*Slot, error) {
	s := &Slot{dir: c.Dir, name: c.Name, token: c.Token, refuge: c.Refuge, made: c.Made, log: log}
	s.forked = sync.NewCond(&s.mu)
	if err := s.take(c, from); err != nil {
		return nil, fmt.Errorf("adopt the slot %s: %w", c.Name, errors.Join(err, s.abandon()))
	}
	s.record.Children = slices.Concat(envoys.children(), c.Remaining)
	return s, nil
}

// take takes what the image before has given.
func (s *Slot) take(c CarriedSlot, from Carrier) (err error) {
	if c.Opened != none {
		if s.opened, err = from.Keep(c.Opened, c.Name); err != nil {
			return err
		}
		if _, err = unix.FcntlInt(s.opened.Fd(), unix.F_SETFD, 0); err != nil { // Envoy inherits it
			return err
		}
		if throughFd(s.opened) != c.Dir {
			return fmt.Errorf("its descriptor leads to %s, want %s", throughFd(s.opened), c.Dir)
		}
	}
	if c.Base != none {
		if s.base, err = from.Take(c.Base, c.BasePath); err != nil {
			return err
		}
	}
	if s.lock, err = from.Take(c.Lock, filepath.Join(c.Dir, lockName)); err != nil {
		return err
	}
	s.record, err = newRecord()
	return err
}

// errLost is the error of Renew if the lock no longer excludes other agents.
var errLost = errors.New("another process has locked the new lock file: two agents use this directory")

// Renew writes the record of an adopted slot. It is called once there is no way back to the previous image. If the lock file was changed, a new one
// replaces it atomically, so that the slot stays locked.
func (s *Slot) Renew() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := filepath.Join(s.dir, lockName)
	opened, err := s.lock.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(path)
	found := err == nil
	if !found && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	same, touched := found && os.SameFile(opened, named), onlyOurs(s.lock)
	if same && touched == nil {
		return errors.Join(s.lock.Chmod(0o600), s.record.write(s.lock))
	}
	if found && !same && named.Mode().IsRegular() {
		release, err := unlessLocked(path)
		if err != nil {
			return err
		}
		defer release()
	}
	again, err := s.newLock(path, found)
	if err != nil {
		return fmt.Errorf("recreate the lock file: %w", err)
	}
	s.log.Warn("lock file recreated", "file", path, "why", cmp.Or(touched, errors.New("it was removed or replaced")))
	old := s.lock
	s.lock = again
	return old.Close()
}

// unlessLocked locks the file at the lock file's path until release is called, or returns errLost if another process has locked it. A file that this user
// may not open belongs to no agent of this user.
func unlessLocked(path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return func() {}, nil
	case err != nil: // such as no descriptor left: it may be another agent's
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(errLost, file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// newLock creates a locked file with the record and moves it to the path. Unless replace is set, the path must not exist.
func (s *Slot) newLock(path string, replace bool) (file *os.File, err error) {
	if _, err := makeDir(s.dir); err != nil {
		return nil, err
	}
	draft := path + "." + newToken()
	file, err = os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = s.record.write(file)
	}
	switch {
	case err != nil:
	case replace:
		err = os.Rename(draft, path)
	default: // unless another agent has made one meanwhile
		if err = os.Link(draft, path); errors.Is(err, fs.ErrExist) {
			err = errLost
		}
	}
	if err != nil || !replace {
		err = errors.Join(err, os.Remove(draft))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// abandon closes the files that were taken. The lock is held by those that were given.
func (s *Slot) abandon() (err error) {
	for _, file := range []*os.File{s.lock, s.base} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}
