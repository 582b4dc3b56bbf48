package envoy

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Spare holds descriptors for what must not fail when the process has no other left: to ask Envoy, and to start it.
type Spare struct {
	mu   sync.Mutex
	held []int
}

const spareFiles = 12 // a start has pipes, a pid's file and its bootstrap open at once

// NewSpare takes what it can get.
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

// lend does something, and once more with the descriptors where it failed for want of them.
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

// ownFailure reports an error that says nothing of Envoy: the agent, or its host, has no descriptor or memory left.
func ownFailure(err error) bool {
	for _, own := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS} {
		if errors.Is(err, own) {
			return true
		}
	}
	return false
}
