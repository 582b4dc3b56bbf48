package agent

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// soak is how often what wears is repeated: make soak says 200.
var soak = flag.Int("soak", 10, "starts and stops, and handovers, of the soak tests")

// Starts and stops leave no process, file, socket or shared memory.
func TestSoakStarts(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	dir := lab.ShortDir(t)
	for range *soak {
		former := s.Sidecar
		s.launchAt(dir)
		s.must(s.awaitRevision(1, lab.StopLimit))
		if former != nil && former.Pid == s.Pid {
			t.Fatal("the same agent again")
		}
		envoys := lab.Children(s.Pid)
		segments := segmentsOf(t, s.Log())
		if code := s.Stop(lab.StopLimit); code != 0 {
			t.Fatalf("exit status %d, want 0:\n%s", code, s.Log())
		}
		for _, pid := range envoys {
			if lab.Alive(pid) {
				t.Errorf("Envoy %d lives", pid)
			}
		}
		for _, path := range segments {
			if _, err := os.Stat(path); err == nil {
				t.Errorf("%s is left", path)
			}
		}
		if left := entries(t, s.ConfigPath); len(left) > 0 {
			t.Errorf("left in configPath: %v", left)
		}
	}
	sockets, err := os.ReadFile("/proc/net/unix")
	s.must(err)
	if strings.Contains(string(sockets), dir) {
		t.Errorf("sockets are left:\n%s", sockets)
	}
}

// Handovers cost no memory: the agent's stays flat, and so does what it leaves on the way.
func TestSoakHandovers(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--handover", "side-by-side") // quicker in a row than hot ones, with the same code around them
	var sizes []int64
	for i := range *soak {
		s.handOver(2 + i)
		sizes = append(sizes, lab.RSS(s.Pid)>>10)
	}
	warm := sizes[len(sizes)/4:]
	t.Logf("resident memory in kB: %v", sizes)
	first, last := slices.Max(warm[:len(warm)/3]), slices.Min(warm[len(warm)*2/3:])
	if last > first+first/5 {
		t.Errorf("memory has grown from at most %d to at least %d kB", first, last)
	}
	// The agent's lock and two sockets; the bootstrap and admin of one epoch, and the four sockets of its family.
	s.must(lab.Eventually(lab.StopLimit, func() error {
		if left := entries(t, s.ConfigPath); len(left) != 3+2+4 {
			return fmt.Errorf("configPath holds %v, want the agent's files and those of one epoch", left)
		}
		return nil
	}))
}
