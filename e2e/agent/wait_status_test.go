package agent

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The commands print the reports of the agent and of Envoy.
func TestStatusAndRequest(t *testing.T) {
	t.Parallel()
	s := startStandalone(t)
	_, statusPort, _ := strings.Cut(s.status, ":")
	_, adminPort, _ := strings.Cut(s.Admin, ":")
	run := func(want int, args ...string) string {
		t.Helper()
		p := s.command(args...)
		s.ended(p, want)
		return p.Log()
	}
	if log := run(0, "wait", "--statusPort", statusPort); log != "" {
		t.Errorf("wait for an agent that is ready prints\n%s", log)
	}
	pid := s.pid("serving")
	if table := run(0, "status", "--statusPort", statusPort); !strings.Contains(table, "\nready for ") ||
		!strings.Contains(table, "\n0       "+strconv.Itoa(pid)) || !strings.Contains(table, "Envoy serves") {
		t.Errorf("status prints\n%s", table)
	}
	document, mention := run(0, "status", "-o", "json", "--statusPort", statusPort), fmt.Sprintf(`"pid": %d`, pid)
	if !strings.Contains(document, mention) {
		t.Errorf("status -o json prints\n%s", document)
	}
	request := []string{"request", "--proxyAdminPort", adminPort, "--configPath", s.ConfigPath}
	if info := run(0, append(request, "GET", "/server_info")...); !strings.Contains(info, `"restart_epoch": 0`) {
		t.Errorf("GET /server_info prints\n%s", info)
	}
	if levels := run(0, append(request, "POST", "/logging?upstream=debug")...); !strings.Contains(levels, "upstream: debug") {
		t.Errorf("POST /logging prints\n%s", levels)
	}
	refusal, want := run(1, append(request, "POST", "/quitquitquit")...), "403 Forbidden\nPOST /quitquitquit is not forwarded"
	if !strings.Contains(refusal, want) {
		t.Errorf("POST /quitquitquit prints\n%s", refusal)
	}
	detach := s.debug(pid) // the agent would replace one that is stopped, perhaps before it is asked
	s.must(lab.Eventually(lab.StopLimit, func() error {
		p := s.command("status", "--statusPort", statusPort)
		if code, err := p.Wait(lab.StopLimit); err != nil || code != 1 {
			return fmt.Errorf("of a frozen Envoy the exit status is %d, %v:\n%s", code, err, p.Log())
		}
		return nil
	}))
	detach()
	s.must(s.awaitStatus(lab.StopLimit, "ready again", func(a agentStatus) bool { return a.Ready }))
}

// In a pod's own network nothing needs to be said: the default ports lead to the agent.
func TestDefaultPorts(t *testing.T) {
	t.Parallel()
	lab.InNetworkNamespace(t, func(t *testing.T) {
		s := newStandalone(t)
		job := s.command("wait", "--shutdown", "--", lab.Program("agent"), "request", "GET", "/ready")
		s.launch("--statusPort", "15020", "--proxyAdminPort", "15000")
		s.ended(job, 0)
		if log := job.Log(); !strings.HasSuffix(log, "LIVE\n") {
			t.Errorf("the job prints\n%s", log)
		}
		s.ended(s.Process, 0)
	})
}
