package application

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// Application says what to run.
type Application struct {
	Argv           []string // the program, looked up in PATH, and its arguments
	Env            []string
	Stdin          io.Reader // files are handed over as they are
	Stdout, Stderr io.Writer
}

// Run starts the application, passes signals on to it, and returns its exit status when it has ended. One that cannot
// be started is an error; its status is a shell's: 127 where there is no such program, 126 where it cannot be run.
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
			_ = command.Process.Signal(s) // one that has just ended needs none
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
