package envoy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// Owns reports whether a process is an Envoy of this slot. It waits for a fork that is under way, since a child may run
// before its pid is on record. A process that has ended is an error: nobody can tell any more which one it was.
func (s *Slot) Owns(pid int) (bool, error) {
	facts, err := FactsOf(pid)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if slices.ContainsFunc(s.record.Children, func(c child) bool { return c.Pid == pid && c.Start == facts.Start }) {
			return true, nil
		}
		if !slices.ContainsFunc(s.record.Children, func(c child) bool { return c.Pid == 0 }) {
			return false, nil
		}
		s.forked.Wait()
	}
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
