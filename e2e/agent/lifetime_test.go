package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// An Envoy that is killed comes back each time, and is served by the same agent.
func TestAKilledEnvoyComesBack(t *testing.T) {
	t.Parallel()
	m := lab.StartMesh(t, "details")
	s := m.Sidecars["details"]
	details := "http://" + m.Address(12) + ":9080/details/0"
	for range 3 {
		pid, err := s.Envoy()
		m.Check(err)
		began := time.Now()
		m.Check(syscall.Kill(pid, syscall.SIGKILL))
		m.Check(lab.Eventually(lab.StopLimit, func() error {
			if lab.Alive(pid) {
				return fmt.Errorf("Envoy %d still lives", pid)
			}
			_, err := lab.Get(details)
			return err
		}))
		t.Logf("killed, and serving again after %s", time.Since(began).Round(time.Millisecond))
		if now, err := s.Envoy(); err != nil || now == pid {
			t.Errorf("Envoy is pid %d after %d (%v), want another", now, pid, err)
		}
	}
}

// While discovery is dead every Envoy serves on, and a new discovery is heard.
func TestTrafficOutlivesDiscovery(t *testing.T) {
	t.Parallel()
	m := lab.StartMesh(t, "productpage", "reviews-v1", "reviews-v2", "ratings")
	load := lab.StartLoad(m.Proxies["productpage"], "http://reviews:9080/reviews/0", 4, 2)
	answered := func(n int64) {
		before := load.Requests()
		m.Check(lab.Eventually(lab.StopLimit, func() error {
			if got := load.Requests() - before; got < n {
				return fmt.Errorf("%d requests answered, want %d", got, n)
			}
			return nil
		}))
	}
	answered(100)
	m.Discovery.Signal(syscall.SIGKILL)
	_, err := m.Discovery.Wait(lab.StopLimit)
	m.Check(err)
	answered(300)
	m.Check(m.Discovery.Restart())
	answered(100)
	m.Weights(0, 100)
	m.Check(lab.Eventually(2*lab.StopLimit, func() error { // Envoy's back-off is jittered, up to 30 s
		if n := m.Stat("reviews-v2", `^cluster\.inbound\|9080\|\|\.upstream_rq_total$`); n == 0 {
			return fmt.Errorf("the new discovery is not heard")
		}
		return nil
	}))
	lab.Unharmed(t, load)
}

// SIGTERM ends the agent with status 0, its Envoy before it, and leaves nothing but the last good configuration.
func TestSIGTERMLeavesNothing(t *testing.T) {
	t.Parallel()
	m := lab.StartMesh(t, "details")
	s := m.Sidecars["details"]
	envoy, err := s.Envoy()
	m.Check(err)
	m.Check(lab.Eventually(lab.StopLimit, func() error {
		if kept, _ := filepath.Glob(filepath.Join(s.ConfigPath, lab.LastGood)); len(kept) != 1 {
			return fmt.Errorf("configPath holds %v, want a last good configuration", entries(t, s.ConfigPath))
		}
		return nil
	}))
	s.Signal(syscall.SIGTERM)
	code, err := s.Wait(lab.StopLimit)
	m.Check(err)
	if code != 0 {
		t.Errorf("exit status %d, want 0:\n%s", code, s.Log())
	}
	if lab.Alive(envoy) {
		t.Errorf("Envoy %d outlives its agent", envoy)
	}
	left := entries(t, s.ConfigPath)
	if kept, _ := filepath.Glob(filepath.Join(s.ConfigPath, lab.LastGood)); len(kept) != 1 || !slices.Equal(left, kept) {
		t.Errorf("left in configPath: %v, want the last good configuration alone", left)
	}
	for _, path := range segmentsOf(t, s.Log()) {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("shared memory %s is still there", path)
		}
	}
}

// A program that cannot be started ends the agent with a status, and a message that names the cause.
func TestTheCauseOfARefusalIsNamed(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	listener := fmt.Sprintf(`{static_resources: {listeners: [{name: busy, address: {socket_address: {address: 127.0.0.1, port_value: %d}},
		filter_chains: [{filters: []}]}]}}`, port)
	for _, test := range []struct {
		name  string
		flags []string
		code  int
		want  string
	}{
		{"a bootstrap that Envoy refuses", []string{"--", "--config-yaml", "{admn: {}}"}, 1, "'admn'"},
		{"an argument that Envoy refuses", []string{"--", "--nope"}, 1, "--nope -- Couldn't find match for argument"},
		{"a missing binary", []string{"--binaryPath", "/nowhere/envoy"}, 1, "--binaryPath /nowhere/envoy: stat /nowhere/envoy: no such file"},
		{
			"a busy admin port",
			[]string{"--proxyAdminPort", fmt.Sprint(port)},
			1,
			fmt.Sprintf("--proxyAdminPort: listen tcp 127.0.0.1:%d: bind: address already in use", port),
		},
		{"a busy listener", []string{"--", "--config-yaml", listener}, 1, fmt.Sprintf("cannot bind '127.0.0.1:%d': Address already in use", port)},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := lab.New(t.TempDir())
			s, err := l.Sidecar(lab.Workload{Name: "x", App: "x", IP: lab.Addresses() + "1", Discovery: "127.0.0.1:1", Flags: test.flags})
			if err != nil {
				t.Fatal(err)
			}
			code, err := s.Wait(30 * time.Second)
			if err != nil {
				s.Stop(0)
				t.Fatalf("%v:\n%s", err, s.Log())
			}
			lines := strings.Split(strings.TrimSpace(s.Log()), "\n")
			last := lines[len(lines)-1]
			if code != test.code || !strings.Contains(last, test.want) {
				t.Errorf("exit status %d, last line %q; want %d and %q", code, last, test.code, test.want)
			}
			if left := leftovers(t, s.ConfigPath); len(left) > 0 {
				t.Errorf("left in configPath: %v", left)
			}
		})
	}
}

// An agent that is killed takes its Envoy along.
func TestAKilledAgentLeavesNoEnvoy(t *testing.T) {
	t.Parallel()
	l := lab.New(t.TempDir())
	s, err := l.Sidecar(lab.Workload{Name: "x", App: "x", IP: lab.Addresses() + "1", Discovery: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(0)
	var pid int
	if err := lab.Eventually(lab.StopLimit, func() (err error) { pid, err = s.Envoy(); return err }); err != nil {
		t.Fatalf("%v:\n%s", err, s.Log())
	}
	s.Signal(syscall.SIGKILL)
	if err := gone(lab.StopLimit, pid); err != nil {
		t.Errorf("its agent is killed: %v", err)
	}
}

// leftovers lists what an agent should not leave in its configPath: flight records are to be read later.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var left []string
	for _, path := range entries(t, dir) {
		switch name := filepath.Base(path); {
		case name == "flight":
		case strings.HasPrefix(name, "private-"): // it stays with what stays in it
			if left = append(left, leftovers(t, path)...); len(entries(t, path)) == 0 {
				left = append(left, path)
			}
		default:
			left = append(left, path)
		}
	}
	return left
}

// entries lists a directory; one that does not exist is empty.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, filepath.Join(dir, e.Name()))
	}
	return names
}
