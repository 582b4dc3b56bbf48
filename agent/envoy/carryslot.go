package envoy

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
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
}

// Carry gives the files of the slot to a carrier. Its record stays, and names the Envoys that run.
func (s *Slot) Carry(to Carrier) (CarriedSlot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := CarriedSlot{Dir: s.dir, Name: s.name, Token: s.token, Refuge: s.refuge, Made: s.made, Base: none, Opened: none}
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

// AdoptSlot goes on to own a slot. After an error nothing has changed.
func AdoptSlot(c CarriedSlot, from Carrier, log *slog.Logger) (s *Slot, err error) {
	s = &Slot{dir: c.Dir, name: c.Name, token: c.Token, refuge: c.Refuge, made: c.Made, log: log}
	s.forked = sync.NewCond(&s.mu)
	defer func() {
		if err != nil {
			err = fmt.Errorf("adopt the slot %s: %w", c.Name, errors.Join(err, s.abandon()))
		}
	}()
	if c.Opened != none {
		if s.opened, err = from.Keep(c.Opened, c.Name); err != nil {
			return nil, err
		}
		if _, err = unix.FcntlInt(s.opened.Fd(), unix.F_SETFD, 0); err != nil { // Envoy inherits it
			return nil, err
		}
		if throughFd(s.opened) != c.Dir {
			return nil, fmt.Errorf("its descriptor leads to %s, want %s", throughFd(s.opened), c.Dir)
		}
	}
	if c.Base != none {
		if s.base, err = from.Take(c.Base, c.BasePath); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(c.Dir, lockName)
	if s.lock, err = from.Take(c.Lock, path); err != nil {
		return nil, err
	}
	if err := onlyOurs(s.lock); err != nil {
		return nil, err
	}
	record, found, err := readRecord(io.NewSectionReader(s.lock, 0, 1<<20))
	if err != nil || !found || record.Agent != os.Getpid() {
		return nil, fmt.Errorf("its record is of process %d, want %d (%w)", record.Agent, os.Getpid(), errors.Join(err, os.ErrInvalid))
	}
	s.record = record
	return s, nil
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
