package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// tagged builds the agent with a further build tag, and returns its path, which ends with /agent.
func tagged(t *testing.T, tag string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	build := exec.Command("go", "build", "-tags", "grpcnotrace,"+tag, "-o", path, "../../cmd/agent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// beside starts an agent from its own directory, and returns the path of its binary, and of another one.
func (s *standalone) beside(binary string) (one, other string) {
	s.t.Helper()
	s.bin = s.t.TempDir()
	one, other = filepath.Join(s.bin, "agent"), filepath.Join(s.bin, "other")
	s.must(os.Link(binary, one))
	s.must(os.Link(binary, other))
	s.launch()
	s.must(s.awaitRevision(1, startLimit))
	s.must(s.awaitAlone(lab.StopLimit))
	return one, other
}

// A newer image reads the state of an older format. An older one that does not read the newer format is refused beforehand.
func TestUpgradeOfFormats(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	old, _ := s.beside(tagged(t, "oldformat"))
	load, before := s.load(), s.vitals()
	for _, newer := range images(t) {
		s.must(s.upgrade(newer))
		if err := s.upgrade(old); err == nil || !strings.Contains(err.Error(), "it reads states of formats [1], this agent writes 3") {
			t.Errorf("the older image: %v", err)
		}
		if now := s.vitals(); now.image != newer || now.envoy != before.envoy || now.restart != before.restart || now.children != 1 {
			t.Errorf("it goes on with %+v, before %+v", now, before)
		}
	}
	s.handOver(2)
	lab.Unharmed(t, load)
}
