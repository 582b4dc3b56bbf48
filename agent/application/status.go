package application

import (
	"errors"
	"io/fs"
	"os/exec"
	"syscall"
)

// Exit statuses that a shell reports for a command that it could not start.
const (
	notRunnable = 126
	notFound    = 127
)

// startStatus returns the exit status that a shell would report for a failure to start.
func startStatus(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return notFound
	}
	return notRunnable
}

// exitStatus returns the exit status that a shell would report for a process.
func exitStatus(w syscall.WaitStatus) int {
	if w.Signaled() {
		return SignalStatus(w.Signal())
	}
	return w.ExitStatus()
}

// SignalStatus is the exit status of a process that a signal ended.
func SignalStatus(s syscall.Signal) int { return 128 + int(s) }
