package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Two agents with default settings, ports and configPath the same, share a host: both serve, and hand over.
func TestTwoAgentsShareAHost(t *testing.T) {
	t.Parallel()
	lab.InNetworkNamespace(t, func(t *testing.T) { // the default ports are ours here
		dir := lab.ShortDir(t)
		var agents []*standalone
		for i := range 2 {
			s := newStandalone(t)
			process, err := lab.Start(lab.Spec{Name: fmt.Sprintf("agent-%d", i), Dir: dir, Argv: []string{
				lab.Program("agent"), "proxy", "--serviceregistry", "Other", "--ip", "127.0.0.1", "--binaryPath", lab.Envoy(),
				"--configPath", filepath.Join(dir, "proxy"), "--customConfigFile", s.config, "--drainDuration", "1s", "--parentShutdownDuration", "2s",
			}})
			s.must(err)
			t.Cleanup(func() { process.Stop(lab.StopLimit) })
			s.Sidecar = &lab.Sidecar{Process: process}
			s.must(s.awaitRevision(1, lab.StopLimit))
			agents = append(agents, s)
		}
		for _, s := range agents {
			s.configure(2)
			s.must(s.awaitRevision(2, handoverLimit))
		}
		if log := agents[1].Log(); !strings.Contains(log, "port not opened") {
			t.Errorf("the second agent does not say that the ports are taken:\n%s", log)
		}
		for _, s := range agents {
			if code := s.Stop(lab.StopLimit); code != 0 {
				t.Errorf("exit status %d, want 0:\n%s", code, s.Log())
			}
		}
		if left := entries(t, filepath.Join(dir, "proxy")); len(left) > 0 {
			t.Errorf("left in configPath: %v", left)
		}
	})
}

// An Envoy that is not ours, on base-id 0, is left alone by everything that an agent does.
func TestAForeignEnvoyIsLeftAlone(t *testing.T) {
	t.Parallel()
	lab.InNetworkNamespace(t, func(t *testing.T) { // base-id 0 is ours here; its shared memory may not be
		foreign := newStandalone(t)
		process, err := lab.Start(lab.Spec{Name: "foreign", Dir: t.TempDir(), Argv: []string{lab.Envoy(), "--config-path", foreign.config}})
		foreign.must(err)
		defer process.Stop(lab.StopLimit)
		foreign.Sidecar = &lab.Sidecar{Process: process}
		foreign.must(foreign.awaitRevision(1, lab.StopLimit))
		s := startStandalone(t)
		s.handOver(2)
		s.must(syscall.Kill(s.pid("serving"), syscall.SIGKILL))
		s.must(s.awaitRevision(2, lab.StopLimit))
		former := s.Sidecar
		former.Signal(syscall.SIGKILL)
		_, err = former.Wait(lab.StopLimit)
		s.must(err)
		s.launchIn(former)
		s.must(s.awaitRevision(2, lab.StopLimit))
		foreign.must(foreign.awaitRevision(1, time.Second))
		if !lab.Alive(process.Pid) {
			t.Error("the foreign Envoy has ended")
		}
	})
}

// As PID 1 the agent buries the orphans that it is given, and stops clean.
func TestPIDOneReapsOrphans(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	argv := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child"}
	enter := []string{"--pid"}
	if os.Getuid() != 0 {
		argv, enter = append(argv, "--user", "--map-root-user"), append(enter, "--user", "--preserve-credentials")
	}
	dir := lab.ShortDir(t)
	process, err := lab.Start(lab.Spec{Name: "pid-1", Dir: dir, Argv: append(argv,
		lab.Program("agent"), "proxy", "--serviceregistry", "Other", "--ip", "127.0.0.1", "--binaryPath", lab.Envoy(),
		"--configPath", filepath.Join(dir, "proxy"), "--customConfigFile", s.config, "--proxyAdminPort", "0", "--statusPort", "0")})
	s.must(err)
	defer process.Stop(lab.StopLimit)
	s.Sidecar = &lab.Sidecar{Process: process}
	s.must(s.awaitRevision(1, lab.StopLimit))
	agent := lab.Children(process.Pid)[0] // as seen from here

	release := filepath.Join(dir, "release")
	script := "for i in 1 2 3 4 5; do (sh -c 'until [ -e " + release + " ]; do sleep 0.05; done; exit 3' >/dev/null 2>&1 &) ; done"
	command := exec.Command("nsenter", append(append([]string{"--target", fmt.Sprint(agent)}, enter...), "sh", "-c", script)...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("start orphans: %v\n%s", err, output)
	}
	s.must(lab.Eventually(lab.StopLimit, func() error {
		if n := len(lab.Children(agent)); n != 1+5 {
			return fmt.Errorf("the agent has %d children, want Envoy and five orphans", n)
		}
		return nil
	}))
	s.must(os.WriteFile(release, nil, 0o600))
	s.must(lab.Eventually(lab.StopLimit, func() error {
		if n := len(lab.Children(agent)); n != 1 {
			return fmt.Errorf("the agent has %d children, want its Envoy alone", n)
		}
		return nil
	}))
	s.must(syscall.Kill(agent, syscall.SIGTERM))
	code, err := process.Wait(lab.StopLimit)
	s.must(err)
	if code != 0 {
		t.Errorf("exit status %d, want 0:\n%s", code, process.Log())
	}
}
