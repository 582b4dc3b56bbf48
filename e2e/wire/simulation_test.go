//go:build wire

package wire

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

var (
	begun = regexp.MustCompile(`^=== (?:RUN|PAUSE|CONT|NAME) +(\S+)$`)
	ended = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
)

// simulation is a run of Istio's simulation tests. Both maps are by the names of tests.
type simulation struct {
	results map[string]string // PASS, FAIL or SKIP of those without tests below them: the cases
	said    map[string]string
}

// simulations runs Istio's simulation tests on what discovery serves.
func simulations(t *testing.T) simulation {
	t.Helper()
	program := exec.CommandContext(t.Context(), lab.Path("bin", "peers", "simulation"), "-test.v", "-test.timeout=5m")
	program.Env = append(os.Environ(), "DISCOVERY="+simulate(t), "SIMULATION_DEBUG=false")
	program.Dir = t.TempDir()
	output, err := program.CombinedOutput()
	if program.ProcessState == nil || program.ProcessState.ExitCode() > 1 {
		t.Fatalf("%v\n%s", err, output[max(0, len(output)-10_000):])
	}
	s := simulation{map[string]string{}, map[string]string{}}
	of := ""
	for line := range strings.Lines(string(output)) {
		if begins := begun.FindStringSubmatch(strings.TrimSpace(line)); begins != nil {
			of = begins[1]
		} else if ends := ended.FindStringSubmatch(line); ends != nil {
			s.results[ends[2]] = ends[1]
		} else {
			s.said[of] += line
		}
	}
	for name := range s.results {
		for above := parent(name); above != ""; above = parent(above) {
			delete(s.results, above)
		}
	}
	return s
}

// parent returns the test to which a test belongs, "" for none.
func parent(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }

// about returns what was said of a case, and of the tests to which it belongs.
func (s simulation) about(name string) (lines string) {
	for ; name != ""; name = parent(name) {
		lines += fmt.Sprintf("%.3000s", s.said[name])
	}
	return lines
}

// Each case of Istio's own simulation, of requests through the configuration of a proxy, ends as it does in Istio, but for the
// differences that docs/compat.md lists with their reasons.
func TestIstioSimulation(t *testing.T) {
	meant := map[string]bool{}
	for _, d := range config.Simulated() {
		for _, name := range d.Cases {
			meant[name] = true
		}
	}
	ran := simulations(t)
	if len(ran.results) < 490 {
		t.Fatalf("%d cases, want Istio's simulation", len(ran.results))
	}
	count := map[string]int{}
	for name, result := range ran.results {
		count[result]++
		switch {
		case result != "FAIL":
		case meant[name]:
			delete(meant, name)
		default:
			t.Errorf("%s\n%s", name, ran.about(name))
		}
	}
	for name := range meant {
		t.Errorf("%s: does not differ, or is no case any more", name)
	}
	t.Logf("%d cases: %v", len(ran.results), count)
}
