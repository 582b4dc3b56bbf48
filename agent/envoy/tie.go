package envoy

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tie has the kernel kill a child when the agent is gone, at any moment and however it went.
//
//	agent ── write end ──▶ pipe ◀── read end ── child, which never looks at it
//	         closed with the agent      O_ASYNC: what happens to the pipe is told to its owner, the child, by SIGKILL
//
// A parent-death signal does not suffice. With hot restart Envoy makes its own TERM, of which a frozen Envoy does not hear;
// nor does a newcomer that waits for its parent's answer: when the parent has gone with the agent, it would hold the
// listen sockets for ever and accept nothing (4 of 84 times when the agent was killed 20 to 50 ms after a fork).
type tie struct{ write, read *os.File }

func newTie() (*tie, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	return &tie{read: os.NewFile(uintptr(fds[0]), "tie"), write: os.NewFile(uintptr(fds[1]), "tie")}, nil
}

// to makes a child that has inherited the read end its owner. Before that, the parent-death signal that the child was
// forked with is still KILL, for Envoy changes it milliseconds later.
func (t *tie) to(pid int) error {
	fd := t.read.Fd()
	_, owner := unix.FcntlInt(fd, unix.F_SETOWN, pid)
	_, which := unix.FcntlInt(fd, unix.F_SETSIG, int(syscall.SIGKILL))
	if err := errors.Join(owner, which); err != nil {
		return fmt.Errorf("tie process %d to the agent: %w", pid, err)
	}
	if _, err := unix.FcntlInt(fd, unix.F_SETFL, unix.O_ASYNC); err != nil {
		return fmt.Errorf("tie process %d to the agent: %w", pid, err)
	}
	return t.read.Close()
}

// cut closes the pipe: of a child that has been reaped, or that was not started.
func (t *tie) cut() {
	t.read.Close() // most often closed before
	t.write.Close()
}
