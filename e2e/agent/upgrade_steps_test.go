package agent

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// steps of an upgrade, in their order: of package agent/upgrade.
var (
	oldSteps = []string{"fetched", "left", "shut", "packed", "held", "sealed"}
	newSteps = []string{"started", "received", "decoded", "slotted", "adopting", "accepted", "served"}
	wayBack  = []string{"decoded", "slotted", "adopting"} // until then the image before goes on
)

// An agent that is killed at any step of an upgrade, or of the way back from one, leaves no Envoy behind, and the next one starts.
func TestUpgradeAndKillAtAStep(t *testing.T) {
	t.Parallel()
	binary := tagged(t, "upgradesteps")
	type strike struct{ name, one, other string } // what happens to the old image and to the new one
	var strikes []strike
	for _, step := range oldSteps {
		strikes = append(strikes, strike{"old image " + step, "kill " + step, ""})
	}
	for _, step := range newSteps {
		strikes = append(strikes, strike{"new image " + step, "", "kill " + step})
	}
	strikes = append(strikes, strike{"on the way back", "", "panic adopting\nkill back"})
	for _, step := range newSteps {
		strikes = append(strikes, strike{"old image again " + step, "kill " + step, "panic adopting"})
	}
	var again, bare, ratios []float64 // a start after the strike, one of a bare Envoy beside it, in milliseconds
	for _, strike := range strikes {
		t.Run(strings.ReplaceAll(strike.name, " ", "-"), func(t *testing.T) {
			s := newStandalone(t)
			one, other := s.beside(binary)
			envoy := s.pid("serving")
			s.must(os.WriteFile(one+".step", []byte(strike.one+"\n"), 0o600))
			s.must(os.WriteFile(other+".step", []byte(strike.other+"\n"), 0o600))
			_ = s.upgrade(other) // whether it is answered depends on the step
			_, err := s.Wait(lab.StopLimit)
			s.must(err)
			s.must(gone(lab.StopLimit, envoy))
			for _, image := range []string{one, other} {
				if left, err := os.ReadFile(image + ".step"); err != nil || strings.TrimSpace(string(left)) != "" {
					t.Errorf("not struck: %q, %v", left, err)
				}
			}
			next, alone := *s, 0.0
			if len(bare)%2 == 0 { // in turns: the second one finds warmer caches
				alone = s.startBare()
			}
			began := time.Now()
			next.launchIn(s.Sidecar)
			next.must(next.awaitRevision(1, startLimit))
			took := milliseconds(time.Since(began))
			if len(bare)%2 != 0 {
				s.must(next.awaitAlone(lab.StopLimit))
				if code := next.Stop(lab.StopLimit); code != 0 {
					t.Errorf("the next agent's exit status is %d", code)
				}
				alone = s.startBare()
			}
			again, bare, ratios = append(again, took), append(bare, alone), append(ratios, took/alone)
		})
	}
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("killed at each of %d steps; serving again after %s, a bare Envoy beside it after %s, ratio %s; load %s",
		len(bare), spread("%.0f ms", again), spread("%.0f ms", bare), spread("%.2f", ratios), load)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// spread is the median and the range of figures.
func spread(format string, of []float64) string {
	if len(of) == 0 {
		return "nothing"
	}
	sorted := slices.Sorted(slices.Values(of))
	return fmt.Sprintf(format+" ("+format+" to "+format+")", sorted[len(sorted)/2], sorted[0], sorted[len(sorted)-1])
}

// startBare returns how long an Envoy without an agent takes until it answers, in milliseconds, and ends it.
func (s *standalone) startBare() float64 {
	s.t.Helper()
	began := time.Now()
	envoy, err := lab.Start(lab.Spec{
		Name: "bare", Dir: s.t.TempDir(),
		Argv: []string{lab.Envoy(), "-c", s.config, "--disable-hot-restart", "--concurrency", fmt.Sprint(runtime.NumCPU()), "--log-level", "warning"},
	})
	s.must(err)
	defer func() {
		envoy.Signal(syscall.SIGKILL)
		_, err := envoy.Wait(lab.StopLimit)
		s.must(err)
	}()
	s.must(lab.Eventually(startLimit, func() error {
		response, err := fresh.Get("http://" + s.address + "/")
		if err == nil {
			response.Body.Close()
		}
		return err
	}))
	return milliseconds(time.Since(began))
}

// An image that panics before it has taken over gives the process back, whatever it has done by then. Envoy notices nothing.
func TestUpgradePanics(t *testing.T) {
	t.Parallel()
	s := newStandalone(t)
	one, other := s.beside(tagged(t, "upgradesteps"))
	load, before := s.load(), s.vitals()
	for _, step := range wayBack {
		s.must(os.WriteFile(other+".step", []byte("panic "+step+"\n"), 0o600))
		if err := s.upgrade(other); err == nil || !strings.Contains(err.Error(), "struck at "+step) {
			t.Errorf("%s: got %v", step, err)
		}
		after := s.vitals()
		if after.image != one || after.envoy != before.envoy || after.restart != before.restart || after.children != 1 {
			t.Errorf("%s: it goes on with %+v, before %+v", step, after, before)
		}
	}
	s.must(s.upgrade(other))
	s.handOver(2)
	lab.Unharmed(t, load)
}
