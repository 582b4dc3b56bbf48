package envoy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pipe passes on what a child writes. The agent always reads it, so a child never waits for a reader.
type pipe struct {
	read *os.File
	done chan struct{} // closed when it is no longer read
}

// pump starts to pass on what comes out of a pipe.
func pump(read *os.File, to io.Writer) *pipe {
	p := &pipe{read: read, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_, _ = io.Copy(to, read) // ends with the child's end of the pipe, or by stop
	}()
	return p
}

// end passes on the rest after the child's exit, and closes the pipe. It waits for a limited time, since a descendant of
// the child may hold the pipe.
func (p *pipe) end(limit time.Duration) {
	if p == nil {
		return
	}
	p.stop(limit)
	p.read.Close()
}

// stop stops to read at a time from now. What is not read by then stays in the pipe.
func (p *pipe) stop(after time.Duration) {
	if p == nil {
		return
	}
	if p.read.SetReadDeadline(time.Now().Add(after)) != nil {
		p.read.Close() // it is no pipe that the runtime polls
	}
	<-p.done
}

// tie makes the kernel kill a child when the agent ends, at any moment and for any reason.
//
//	agent ── write end ──▶ pipe ◀── read end ── child, which never reads it
//	         closed with the agent      O_ASYNC: on an event of the pipe the kernel sends SIGKILL to its owner, the child
//
// A parent-death signal does not suffice. With hot restart Envoy sets its own parent-death signal to TERM, which a stopped
// Envoy does not handle. Neither does a newcomer that waits for its parent's answer: if the parent has ended with the agent,
// the newcomer would hold the listen sockets for ever and accept nothing (4 of 84 times when the agent was killed 20 to
// 50 ms after a fork).
type tie struct{ write, read *os.File }

func newTie() (*tie, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	return &tie{read: os.NewFile(uintptr(fds[0]), "tie"), write: os.NewFile(uintptr(fds[1]), "tie")}, nil
}

// to makes a child that has inherited the read end the owner of the pipe. Until then the parent-death signal of the
// fork, KILL, protects: Envoy changes it only milliseconds later.
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

// cut closes the pipe, once the child has been reaped or could not be started.
func (t *tie) cut() {
	if t.read != nil {
		t.read.Close() // most often closed already
	}
	t.write.Close()
}
