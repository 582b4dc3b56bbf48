package application

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the terminal of a job in the foreground. Its keys send signals to the foreground group only, so the
// application's group is put into the foreground while it runs, as a shell does with a job. nil for none.
type terminal struct{ fd int }

// terminalOf returns nil if input is no terminal, or if another job is in its foreground.
func terminalOf(input io.Reader) *terminal {
	file, ok := input.(*os.File)
	if !ok {
		return nil
	}
	t := &terminal{int(file.Fd())}
	if group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		return nil
	}
	return t
}

// give puts a group into the foreground, and continues it: a read from the terminal may have stopped it before.
func (t *terminal) give(group int) {
	if t == nil {
		return
	}
	t.foreground(group)
	_ = unix.Kill(-group, unix.SIGCONT) // fails if the group has just ended
}

func (t *terminal) take() {
	if t != nil {
		t.foreground(unix.Getpgrp())
	}
}

// foreground sets the foreground group. It may be called from the background: then the kernel sends SIGTTOU, which
// stops a process that does not ignore it. The application was started before and does not inherit the ignored signal.
// Errors are ignored, since a closed terminal has no foreground.
func (t *terminal) foreground(group int) {
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
}

// stopWith stops this process and its group, which may include a script, when a key of the terminal has stopped the
// application, so that the shell notices. A session leader, such as the first process of a container, has no shell that
// would continue it: then stopWith continues the application.
func (t *terminal) stopWith(pid int) {
	var info unix.Siginfo
	if t == nil || unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil) != nil || info.Signo == 0 {
		return
	}
	if session, err := unix.Getsid(0); err != nil || session == os.Getpid() {
		t.give(pid)
		return
	}
	_ = unix.Kill(0, unix.SIGSTOP) // on SIGCONT, Run gives the terminal back
}
