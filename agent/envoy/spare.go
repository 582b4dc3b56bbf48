package envoy

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spare holds file descriptors in reserve for when the process has no other left: to query Envoy and to start it.
type Spare struct {
	mu   sync.Mutex
	held []int
}

const spareFiles = 12 // a start has pipes, a pid's file and its bootstrap open at once

// NewSpare opens as many of the descriptors as it can.
func NewSpare() *Spare {
	s := &Spare{}
	s.refill()
	return s
}

func (s *Spare) refill() {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for err == nil {
		s.held = append(s.held, fd)
		if len(s.held) == spareFiles {
			return
		}
		fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) // no os.File: a start would register each for polling
	}
}

// lend calls do, and if it failed for lack of descriptors, closes the spare ones and calls it once more.
func (s *Spare) lend(do func() error) error {
	err := do()
	if s == nil || !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range s.held {
		unix.Close(fd)
	}
	s.held = nil
	defer s.refill()
	return do()
}

// ownFailure reports whether the cause of an error is not Envoy: the agent, or its host, has no descriptor or memory
// left.
func ownFailure(err error) bool {
	for _, own := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}
