package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a child process that was started and may have ended.
type Process struct {
	Name    string
	Pid     int
	LogFile string

	cmd  *exec.Cmd
	done chan struct{} // closed when it is reaped
}

// Spec describes a process to start.
type Spec struct {
	Name string
	Dir  string // of its log; made if missing
	Work string // its working directory; the test's own if empty
	Env  []string
	Argv []string

	Stdin          *os.File // nil for none
	Stdout, Stderr *os.File // nil for the log
}

// Start starts a process. Its environment is PATH, HOME, which is the spec's Dir, and the spec's Env.
func Start(s Spec) (*Process, error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	p := &Process{Name: s.Name, LogFile: filepath.Join(s.Dir, s.Name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(s.Argv[0], s.Argv[1:]...)
	p.cmd.Dir = s.Work
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir}, s.Env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if s.Stdin != nil {
		p.cmd.Stdin = s.Stdin // not set to a nil file, which is not the same as none
	}
	if s.Stdout != nil {
		p.cmd.Stdout = s.Stdout
	}
	if s.Stderr != nil {
		p.cmd.Stderr = s.Stderr
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The parent-death signal is sent when the forking thread ends, so this thread stays until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	p.Pid = p.cmd.Process.Pid
	return p, nil
}

// Signal sends a signal; it does nothing if the process has ended.
func (p *Process) Signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// Done is closed when the process is reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns the exit status, -1 for a death by signal, or an error when the process outlives the time.
func (p *Process) Wait(limit time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return 0, fmt.Errorf("%s (pid %d) still runs after %s", p.Name, p.Pid, limit)
	}
}

// Stop ends the process: TERM, then KILL. It returns the exit status.
func (p *Process) Stop(limit time.Duration) int {
	p.Signal(syscall.SIGTERM)
	if code, err := p.Wait(limit); err == nil {
		return code
	}
	p.Signal(syscall.SIGKILL)
	<-p.done
	return -1
}

// AwaitLog waits until the output of the process has a text: a log is written asynchronously.
func (p *Process) AwaitLog(text string) error {
	return Eventually(StopLimit, func() error {
		if log := p.Log(); !strings.Contains(log, text) {
			return fmt.Errorf("the log of %s has no %q:\n%s", p.Name, text, Tail(log))
		}
		return nil
	})
}

// Log returns the output of the process.
func (p *Process) Log() string {
	data, err := os.ReadFile(p.LogFile)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
