//go:build long

package agent

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

var (
	kills    = flag.Int("kills", 152, "agents that are killed during a hot restart, each in another part of -kill-in")
	killSeed = flag.Uint64("kill-seed", 0, "seed of the moments; 0 draws one")
	killIn   = flag.Duration("kill-in", 150*time.Millisecond, "how long after a newcomer's fork its agent is killed at the latest")
)

// An agent that is killed at any moment of a hot restart leaves no Envoy: one that it left would hold the listen sockets. -kill-in is
// divided into as many parts as agents are killed, about a millisecond each, and one dies at a random moment of each part.
func TestLongKilledInAHotRestart(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kill-seed %d", seed)
	const workers = 4
	var killed, orphans atomic.Int64
	t.Cleanup(func() { t.Logf("%d orphans of %d killed agents", orphans.Load(), killed.Load()) })
	for worker := range workers {
		random := rand.New(rand.NewPCG(seed, uint64(worker)))
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			s := newStandalone(t)
			part := *killIn / time.Duration(*kills)
			for i := range *kills / workers {
				after := part*time.Duration(i*workers+worker) + time.Duration(random.Int64N(int64(part)))
				left, err := s.killedInAHotRestart(after)
				orphans.Add(int64(len(left)))
				if err != nil {
					t.Fatalf("agent %d of this worker: %v", i, err)
				}
				killed.Add(1)
			}
		})
	}
}

// killedInAHotRestart kills an agent some time after it has forked a newcomer, and returns the Envoys that outlive it.
// The error says what went wrong, orphans included, and holds the agent's log. Nothing is left of the agent.
func (s *standalone) killedInAHotRestart(after time.Duration) (left []int, err error) {
	dir, err := os.MkdirTemp("", "pilotlight-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s.configure(1)
	s.start(dir)
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\nthe agent's log:\n%s", err, tail(s.Log(), 60))
		}
		s.Signal(syscall.SIGKILL)
		_, _ = s.Wait(lab.StopLimit)
		for _, pid := range envoysIn(s.ConfigPath) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		removeSegments(s.Log())
	}()
	if err := s.awaitRevision(1, startLimit); err != nil {
		return nil, err
	}
	if err := s.awaitAlone(startLimit); err != nil {
		return nil, err
	}
	parent := envoysIn(s.ConfigPath)
	s.configure(2)
	newcomer := func(pid int) bool { return !slices.Contains(parent, pid) && runsIn(s.ConfigPath, pid) }
	// Without a pause, for the first moments count; and not until there are two, for an idle parent leaves soon.
	for deadline := time.Now().Add(startLimit); !slices.ContainsFunc(lab.Children(s.Pid), newcomer); {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("no newcomer was started within %s", startLimit)
		}
	}
	<-time.After(after)
	watch := lab.StartStopwatch()
	s.Signal(syscall.SIGKILL)
	if _, err := s.Wait(lab.StopLimit); err != nil {
		return nil, err
	}
	err = lab.Eventually(lab.StopLimit, func() error {
		if left = envoysIn(s.ConfigPath); len(left) > 0 {
			return fmt.Errorf("Envoys %v outlive their agent, killed %s after the newcomer's fork", left, after)
		}
		return nil
	})
	watch.Within(s.t, orphanLimit, fmt.Sprintf("the end of the Envoys of an agent that was killed %s after the newcomer's fork", after))
	return left, err
}
