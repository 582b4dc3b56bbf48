package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
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

// Children lists the living children of a process. It reads every thread's list, since any thread may fork.
func Children(pid int) []int {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var out []int
	for _, task := range tasks {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for _, field := range strings.Fields(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// Alive reports whether a process runs; it is false for a zombie.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state follows the command's closing parenthesis.
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// RSS returns a process's resident memory in bytes, 0 when it has ended.
func RSS(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kilobytes << 10
		}
	}
	return 0
}

// Addresses returns a prefix of loopback addresses, "127.87.12.", for one test only. It is random: two runs on one
// machine must not use the same addresses, since Envoys of one user share a port without an error.
func Addresses() string { return fmt.Sprintf("127.%d.%d.", 64+rand.IntN(160), 1+rand.IntN(254)) }

// Eventually calls condition until it returns nil, and returns its last error when the time is over. Between two calls passes a
// twentieth of the time that it has waited, at least 5 ms and at most 50: most conditions ask a program, and it needs a processor
// to answer.
func Eventually(limit time.Duration, condition func() error) error {
	began := time.Now()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		waited := time.Since(began)
		if waited > limit {
			return fmt.Errorf("not within %s: %w", limit, err)
		}
		time.Sleep(min(max(waited/20, 5*time.Millisecond), 50*time.Millisecond))
	}
}

// CPU returns the time that a process has spent on processors, to the nanosecond.
func CPU(pid int) (total time.Duration) {
	eachTask(pid, "schedstat", func(text string) {
		run, _, _ := strings.Cut(text, " ")
		nanoseconds, _ := strconv.ParseInt(run, 10, 64)
		total += time.Duration(nanoseconds)
	})
	return total
}

// Wakeups returns how often the threads of a process have gone to sleep by themselves and were woken.
func Wakeups(pid int) (total int64) {
	eachTask(pid, "status", func(text string) {
		_, rest, _ := strings.Cut(text, "\nvoluntary_ctxt_switches:")
		count, _, _ := strings.Cut(rest, "\n")
		n, _ := strconv.ParseInt(strings.TrimSpace(count), 10, 64)
		total += n
	})
	return total
}

// eachTask reads a file of each thread.
func eachTask(pid int, file string, read func(text string)) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/%s", pid, task.Name(), file))
		read(string(data))
	}
}

// BaseID returns a base-id for hot restarts that no other run is likely to have.
func BaseID() int { return 1_000 + rand.IntN(2_000_000) }

// ShortDir makes a directory with a path short enough for a socket in it.
func ShortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pilotlight-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// RemoveSockets removes the sockets of an agent and its Envoys below a directory, as a cleaner of /run may.
func RemoveSockets(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type()&os.ModeSocket != 0 {
			err = os.Remove(path)
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil // its process has just ended
		}
		return err
	})
}
