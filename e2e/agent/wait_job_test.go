package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// job starts a shell script under wait --shutdown.
func (s *standalone) job(script string) *lab.Process {
	_, port, _ := strings.Cut(s.status, ":")
	return s.command("wait", "--shutdown", "--statusPort", port, "--", "sh", "-c", script)
}

// A job ends, its proxy with it, and its exit status is the job's.
func TestAJobEndsItsProxy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		want         int
	}{
		{"well", "exit 0", 0},
		{"with a failure", "exit 3", 3},
		{"by a signal", "kill -KILL $$", 137},
		{"not started", "exec /nowhere/program", 127},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startStandalone(t)
			envoy := s.pid("serving")
			s.ended(s.job(test.script), test.want)
			s.ended(s.Process, 0)
			if lab.Alive(envoy) {
				t.Errorf("Envoy %d lives", envoy)
			}
			if left := leftovers(t, s.ConfigPath); len(left) > 0 {
				t.Errorf("left in configPath: %v", left)
			}
		})
	}
}

// The proxy that a job ends finishes what it has begun.
func TestAJobsProxyDrains(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	answer := s.slow(s.address)
	s.awaitInFlight(1)
	s.ended(s.job("exit 0"), 0)
	if err := <-answer; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	s.ended(s.Process, 0)
}

// SIGTERM is the program's to obey; its proxy serves until it has.
func TestAJobIsToldToStop(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	held, release := filepath.Join(t.TempDir(), "held"), filepath.Join(t.TempDir(), "release")
	job := s.job(fmt.Sprintf(`trap 'touch %s; while [ ! -e %s ]; do sleep 0.05; done; exit 7' TERM
		echo begun; while :; do sleep 0.05; done`, held, release))
	s.must(lab.Eventually(lab.StopLimit, func() error {
		if !strings.Contains(job.Log(), "begun") {
			return fmt.Errorf("the job has not begun:\n%s", job.Log())
		}
		return nil
	}))
	job.Signal(syscall.SIGTERM)
	s.must(lab.Eventually(lab.StopLimit, func() error { _, err := os.Stat(held); return err }))
	s.must(s.awaitRevision(1, lab.StopLimit))
	if a, err := s.ask(); err != nil || !a.Ready {
		t.Errorf("while the job ends its agent says %+v, %v; want ready", a, err)
	}
	s.must(os.WriteFile(release, nil, 0o600))
	s.ended(job, 7)
	s.ended(s.Process, 0)
}

// The death of wait ends neither the program nor its proxy.
func TestAProgramOutlivesAKilledWait(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	job := s.job("exec sleep 60")
	var program int
	s.must(lab.Eventually(lab.StopLimit, func() error {
		children := lab.Children(job.Pid)
		if len(children) != 1 {
			return fmt.Errorf("children of wait: %v", children)
		}
		program = children[0]
		if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", program)); err != nil || string(comm) != "sleep\n" {
			return fmt.Errorf("process %d is %q, %v", program, comm, err)
		}
		return nil
	}))
	t.Cleanup(func() { _ = syscall.Kill(program, syscall.SIGKILL) })
	job.Signal(syscall.SIGKILL)
	if _, err := job.Wait(lab.StopLimit); err != nil {
		t.Fatal(err)
	}
	s.must(s.awaitRevision(1, lab.StopLimit))
	if !lab.Alive(program) {
		t.Errorf("the program %d was killed with wait", program)
	}
}

// Another container of the pod: other processes, another user, an own copy of the binary, wait as PID 1; the network
// alone is shared.
func TestWaitInAnotherContainer(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	_, port, _ := strings.Cut(s.status, ":")
	dir := lab.ShortDir(t)
	s.must(os.Chmod(dir, 0o755))
	binary, err := os.ReadFile(lab.Program("agent"))
	s.must(err)
	agent := filepath.Join(dir, "agent")
	s.must(os.WriteFile(agent, binary, 0o755))
	argv := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	if os.Getuid() == 0 {
		argv = append(argv, "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
	} else {
		argv = append(argv, "--user", "--map-root-user")
	}
	// Orphans end at once, and stay until PID 1 buries them: the script ends when none is left.
	const script = `echo "pid 1 is $(cat /proc/1/comm), the user $(id -u)"
		for i in 1 2 3; do (sh -c 'exit 3' &); done
		while grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null; do sleep 0.1; done
		exit 5`
	job := s.startBeside(append(argv, agent, "wait", "--shutdown", "--statusPort", port, "--", "sh", "-c", script)...)
	s.ended(job, 5)
	user := "65534"
	if os.Getuid() != 0 {
		user = "0" // of its own namespace
	}
	if log := job.Log(); !strings.Contains(log, "pid 1 is agent, the user "+user) {
		t.Errorf("the job says\n%s", log)
	}
	s.ended(s.Process, 0)
}

// When a whole pod is told to stop, the program's end is no second signal: its proxy goes on draining.
func TestAPodIsToldToStop(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--terminationDrainDuration", "60s")
	job := s.job("trap 'exit 0' TERM; echo begun; while :; do sleep 0.05; done")
	s.must(lab.Eventually(lab.StopLimit, func() error {
		if !strings.Contains(job.Log(), "begun") {
			return fmt.Errorf("the job has not begun:\n%s", job.Log())
		}
		return nil
	}))
	answer := s.hold()
	s.awaitInFlight(1)
	s.Signal(syscall.SIGTERM)
	s.must(s.AwaitLog(`msg=stopping`))
	job.Signal(syscall.SIGTERM)
	s.ended(job, 0)
	close(s.program.held)
	if err := <-answer; err != nil {
		t.Errorf("the request in flight: %v", err)
	}
	s.ended(s.Process, 0)
}
