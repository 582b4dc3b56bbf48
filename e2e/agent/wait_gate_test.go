package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// statusPort draws the port at which an agent that does not run yet will tell its status.
func (s *standalone) statusPort() string {
	s.t.Helper()
	port, err := lab.FreePort()
	s.must(err)
	return fmt.Sprint(port)
}

// launchOn starts the agent with a status port that others know already.
func (s *standalone) launchOn(port string, flags ...string) {
	s.t.Helper()
	s.launch(append([]string{"--statusPort", port}, flags...)...)
	s.status = "127.0.0.1:" + port
}

// command starts a command of the agent's binary, such as "wait".
func (s *standalone) command(args ...string) *lab.Process {
	s.t.Helper()
	return s.startBeside(append([]string{lab.Program("agent")}, args...)...)
}

// startBeside starts a process that the test's end ends.
func (s *standalone) startBeside(argv ...string) *lab.Process {
	s.t.Helper()
	p, err := lab.Start(lab.Spec{Name: "beside", Dir: s.t.TempDir(), Argv: argv})
	s.must(err)
	s.t.Cleanup(func() { p.Stop(lab.StopLimit) })
	return p
}

// ended waits for a command, and compares its exit status.
func (s *standalone) ended(p *lab.Process, want int) {
	s.t.Helper()
	code, err := p.Wait(30 * time.Second)
	if err != nil || code != want {
		s.t.Fatalf("exit status %d, %v; want %d:\n%s", code, err, want, p.Log())
	}
}

// askProxy is a program that needs the proxy from its first moment: it asks once, and its status is 0 for a 200.
func (s *standalone) askProxy() []string {
	host, port, _ := strings.Cut(s.address, ":")
	const script = `
		exec 3<>/dev/tcp/$0/$1 || exit 1
		printf 'GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3
		read -r line <&3
		echo "$line"
		[[ $line == *" 200 "* ]]`
	return []string{"bash", "-c", script, host, port}
}

// A program that starts before its proxy, and before its agent, waits until it is served.
func TestWaitGatesAProgram(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	if code, err := s.startBeside(s.askProxy()...).Wait(lab.StopLimit); err != nil || code == 0 {
		t.Fatalf("without a proxy the program's status is %d, %v; it should fail", code, err)
	}
	port := s.statusPort()
	gate := s.command(append([]string{"wait", "--shutdown", "--statusPort", port, "--"}, s.askProxy()...)...)
	s.must(lab.Eventually(lab.StopLimit, func() error {
		if !strings.Contains(gate.Log(), "waiting: nobody listens at localhost:"+port) {
			return fmt.Errorf("wait does not say what it waits for:\n%s", gate.Log())
		}
		return nil
	}))
	s.launchOn(port)
	s.ended(gate, 0)
	if log := gate.Log(); !strings.Contains(log, "200 OK") {
		t.Errorf("the program was answered:\n%s", log)
	}
	s.ended(s.Process, 0) // the agent, told to stop
}

// A proxy that hears nothing of discovery is not ready, and wait names what is missing.
func TestWaitNamesWhatBlocks(t *testing.T) {
	t.Parallel()
	l := lab.New(lab.ShortDir(t))
	s := newStandalone(t)
	port := s.statusPort()
	sidecar, err := l.Sidecar(lab.Workload{
		Name: "x", App: "x", IP: lab.Addresses() + "1", Discovery: "127.0.0.1:1", Flags: []string{"--statusPort", port},
	})
	s.must(err)
	t.Cleanup(func() { sidecar.Stop(lab.StopLimit) })
	s.must(lab.Eventually(lab.StopLimit, func() error {
		wait := s.command("wait", "--statusPort", port, "--timeout", "10ms")
		s.ended(wait, 1)
		log := wait.Log()
		for _, want := range []string{": not ready\n", "\n  CDSReceived since 20", "\n  LDSReceived since 20"} {
			if !strings.Contains(log, want) {
				return fmt.Errorf("wait says\n%s", log)
			}
		}
		return nil
	}))
}
