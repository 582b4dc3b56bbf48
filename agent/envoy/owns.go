package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pilotlight/pilotlight/agent/procnet"
)

// Owns reports whether a process is an Envoy of this slot. It waits for a fork that is under way, since a child may run
// before its pid is on record. A process that has ended is an error: nobody can tell any more which one it was.
func (s *Slot) Owns(pid int) (bool, error) {
	facts, err := procnet.ReadStat(pid)
	return s.owns(pid, facts, err, runs(pid))
}

// owns is Owns with the facts of the process, or why there are none. /proc may hide one that runs (hidepid, systemd's ProtectProc): of
// another user, or of another user namespace, where systemd's PrivateUsers puts each command of a unit. It is no Envoy of this slot if no
// Envoy has its pid.
func (s *Slot) owns(pid int, facts procnet.Stat, unknown error, runs bool) (bool, error) {
	hidden := runs && (errors.Is(unknown, fs.ErrNotExist) || errors.Is(unknown, fs.ErrPermission))
	if unknown != nil && !hidden {
		return false, unknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		i := slices.IndexFunc(s.record.Children, func(c child) bool { return c.Pid == pid && (hidden || c.Start == facts.Start) })
		switch {
		case i >= 0 && hidden:
			return false, fmt.Errorf("it may be Envoy, but /proc hides it: %w", unknown)
		case i >= 0:
			return true, nil
		}
		if !slices.ContainsFunc(s.record.Children, func(c child) bool { return c.Pid == 0 }) {
			return false, nil
		}
		s.forked.Wait()
	}
}

// runs reports whether a process exists, also one of another user.
func runs(pid int) bool {
	err := unix.Kill(pid, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// RefuseOwn is for the agent's own socket: it refuses Envoys of this slot, which send what their configuration says.
// A process of another pid namespace, whose pid is 0, is none of them.
func (s *Slot) RefuseOwn(pid int) error {
	if pid == 0 {
		return nil
	}
	switch own, err := s.Owns(pid); {
	case err != nil:
		return err
	case own:
		return fmt.Errorf("process %d is the agent's own Envoy", pid)
	}
	return nil
}

// OnlyOwn is for the socket that only Envoys of this slot need.
func (s *Slot) OnlyOwn(pid int) error {
	switch own, err := s.Owns(pid); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("process %d has ended", pid)
	case err != nil:
		return err
	case !own:
		return fmt.Errorf("process %d is not the agent's own Envoy", pid)
	}
	return nil
}
