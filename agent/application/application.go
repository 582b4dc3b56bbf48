package application

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// Application describes the program to run.
type Application struct {
	Argv           []string // the program, looked up in PATH, and its arguments
	Env            []string
	Stdin          io.Reader // an *os.File is inherited
	Stdout, Stderr io.Writer
}

// Run starts the application, forwards signals to it, and returns its exit status when it has ended. If it cannot be
// started, Run returns an error and the status of a shell: 127 if there is no such program, 126 if it cannot be run.
func (a Application) Run(signals <-chan os.Signal) (status int, err error) {
	command := exec.Command(a.Argv[0], a.Argv[1:]...)
	command.Env = a.Env
	command.Stdin, command.Stdout, command.Stderr = a.Stdin, a.Stdout, a.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	terminal := terminalOf(a.Stdin)

	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGCHLD)
	defer signal.Stop(changes)
	if err := command.Start(); err != nil {
		return startStatus(err), fmt.Errorf("start %s: %w", strings.Join(a.Argv, " "), err)
	}
	terminal.give(command.Process.Pid)
	defer terminal.take()

	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGCONT {
				terminal.give(command.Process.Pid)
			}
			_ = command.Process.Signal(s) // fails if the process has just ended
		case <-changes:
			terminal.stopWith(command.Process.Pid)
		case err := <-ended:
			if command.ProcessState == nil {
				return 0, fmt.Errorf("wait for %s: %w", a.Argv[0], err)
			}
			return exitStatus(command.ProcessState.Sys().(syscall.WaitStatus)), nil
		}
	}
}

// Signals returns the signals that can be forwarded: not KILL and STOP, which no process can catch, nor those that
// concern only the process that receives them: its faults, its children, its timers, its terminal.
func Signals() []os.Signal {
	out := []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGTERM, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGWINCH, syscall.SIGIO, syscall.SIGPWR,
	}
	const firstRealTime, lastRealTime = 35, 64 // three below are the C libraries' own, which Go does not allow to catch
	for s := syscall.Signal(firstRealTime); s <= lastRealTime; s++ {
		out = append(out, s)
	}
	return out
}

// Catch returns a channel of Signals. Signals that are ignored stay ignored, also in the application, as nohup and a
// shell's & require. Go reports this for HUP and INT only; since a shell's & ignores INT and QUIT together, Catch
// ignores QUIT if INT is ignored.
func Catch() (signals <-chan os.Signal, stop func()) {
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
	caught := make(chan os.Signal, 16) // more than arrive before they are passed on
	for _, s := range Signals() {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
	return caught, func() { signal.Stop(caught) }
}

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
