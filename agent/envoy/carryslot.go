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
	Dir, Name, Token, Refuge string
	Made                     []string

	Lock     int    // files
	Base     int    // configPath, if others may write to it
	BasePath string // its path
	Opened   int    // the slot, if Dir leads through its descriptor

	Remaining []child `json:",omitempty"` // of an earlier agent, which could not be killed
}

// Carry gives the files of the slot to a carrier. Of its record goes along what the carried Envoys do not say.
func (s *Slot) Carry(to Carrier, envoys Carried) (CarriedSlot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := CarriedSlot{Dir: s.dir, Name: s.name, Token: s.token, Refuge: s.refuge, Made: s.made, Base: none, Opened: none}
	for _, c := range s.record.Children {
		if !slices.Contains(envoys.children(), c) {
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

// AdoptSlot goes on to own a slot. After an error nothing has changed. The record is what the image before knew, and never what is in the lock file
// by now: others may have touched it.
func AdoptSlot(c CarriedSlot, envoys Carried, from Carrier, log *slog.Logger) (*Slot, error) {
	s := &Slot{dir: c.Dir, name: c.Name, token: c.Token, refuge: c.Refuge, made: c.Made, log: log}
	s.forked = sync.NewCond(&s.mu)
	if err := s.take(c, from); err != nil {
		return nil, fmt.Errorf("adopt the slot %s: %w", c.Name, errors.Join(err, s.abandon()))
	}
	s.record.Children = slices.Concat(envoys.children(), c.Remaining)
	if err := s.renew(); err != nil {
		log.Warn("record of the agent's Envoys not written: one that outlives a killed agent will not be found", "file", s.lock.Name(), "err", err)
	}
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

// renew writes the record, for its owner only. A lock file that was removed, or that has another owner or a further name by now, is made again:
// until then the lock on the old one holds the slot.
func (s *Slot) renew() error {
	path := s.lock.Name()
	_ = s.lock.Chmod(0o600) // another owner's is made again
	opened, err := s.lock.Stat()
	if err != nil {
		return err
	}
	named, err := os.Lstat(path)
	found, same := err == nil, err == nil && os.SameFile(opened, named)
	why := onlyOurs(s.lock)
	if same && why == nil {
		return s.record.write(s.lock)
	}
	if same || found && named.Mode()&fs.ModeSymlink != 0 {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	again, err := lockFile(path)
	if errors.Is(err, fs.ErrNotExist) { // its directory
		if _, err = makeDir(s.dir); err == nil {
			again, err = lockFile(path)
		}
	}
	switch {
	case err != nil:
		return err
	case again == nil:
		return errors.New("it was removed, and another agent has made it again")
	}
	s.log.Warn("lock file of the slot made again", "file", path, "why", cmp.Or(why, errors.New("it had been removed or replaced")))
	old := s.lock
	s.lock = again
	return errors.Join(s.record.write(s.lock), old.Close())
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
