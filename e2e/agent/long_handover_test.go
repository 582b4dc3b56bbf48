//go:build long

package agent

import (
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The handovers of make test, so often that a leak would show.
func TestLongHandovers(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"hot":                       func(t *testing.T) { handOverInARow(t, 20, "hot") },
		"side-by-side":              func(t *testing.T) { handOverWithMigration(t, 20) },
		"newcomers that are killed": func(t *testing.T) { killNewcomers(t, 10) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// A draining parent that dies would take its newcomer along: the agent stands in for it, and the next handover works.
func TestLongHandoverParentKilledInTheOverlap(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--handover", "hot", "--drainDuration", "1s", "--parentShutdownDuration", "4s")
	for revision := 2; revision <= 3; revision++ {
		s.overlap(revision)
		newcomer := s.pid("serving")
		load := s.load()
		s.must(syscall.Kill(s.pid("draining"), syscall.SIGKILL))
		// Beyond the moment when it tells its parent to leave, and the ten seconds that it would wait for that.
		<-time.After(16 * time.Second)
		lab.Unharmed(t, load)
		if pid := s.pid("serving"); pid != newcomer {
			t.Errorf("process %d serves, want still %d", pid, newcomer)
		}
	}
	s.handOver(4)
}
