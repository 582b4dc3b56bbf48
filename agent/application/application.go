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
