package agent

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Three changes in a row under load do not wait for one another's parents, which leave as soon as they are idle. A request
// that takes long keeps its parent, and then only the newest of the changes waits. A stop after that is quick.
func TestChangesInARow(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--handover", "hot", "--parentShutdownDuration", "50s", "--drainDuration", "1s", "--terminationDrainDuration", "20s")
	load := s.load()
	var took []time.Duration
	for revision := 2; revision <= 4; revision++ {
		watch := lab.StartStopwatch()
		s.configure(revision)
		s.must(s.awaitRevision(revision, handoverLimit))
		took = append(took, watch.Took())
		watch.Within(t, 5*time.Second, fmt.Sprintf("change %d", revision))
	}
	t.Logf("three changes under load were in force after %v", took)
	s.must(s.awaitAlone(handoverLimit))
	lab.Unharmed(t, load)

	answered := send(s.address, "/held")
	s.awaitInFlight(1)
	s.configure(5)
	s.must(s.awaitRevision(5, handoverLimit))
	for revision := 6; revision <= 8; revision++ {
		s.configure(revision)
		s.must(s.awaitStatus(handoverLimit, "a change that waits", func(a agentStatus) bool { return a.Handover == "gated" }))
	}
	s.must(s.awaitRevision(5, handoverLimit)) // which still holds
	close(s.program.held)
	s.must(<-answered)
	s.must(s.awaitRevision(8, handoverLimit))
	a, err := s.ask()
	s.must(err)
	if got := a.Counts["starting Envoy"]; got != 6 {
		t.Errorf("%d Envoys were started, want six: of the changes that wait only the newest counts", got)
	}
	s.stopsQuickly()
}

// A request that takes long does not delay the next change, and none of the changes cuts it: not the next one, not one that fails, and
// not the stop of an Envoy between the two.
func TestAChangeBesideALongRequest(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--parentShutdownDuration", "120s", "--drainDuration", "1s")
	load := s.lightLoad()
	answered := s.hold()
	s.awaitInFlight(1)
	oldest := s.pid("serving")
	s.handsOver(2)
	began := time.Now()
	s.handsOver(3)
	t.Logf("beside a request on the first Envoy, the second change was in force after %v", time.Since(began).Round(time.Millisecond))
	s.must(s.awaitStatus(lab.StopLimit, "the first Envoy and the third", func(a agentStatus) bool {
		return len(a.Epochs) == 2 && a.Epochs[0].Pid == oldest && a.Epochs[1].Epoch == 2
	}))
	s.configure(4)
	s.must(s.awaitStatus(handoverLimit, "a change that waits", func(a agentStatus) bool { return a.Handover == "gated" }))
	select {
	case err := <-answered:
		t.Fatalf("the request was answered before its program did: %v", err)
	default:
	}
	close(s.program.held)
	s.must(<-answered)
	s.must(s.awaitRevision(4, handoverLimit))
	s.must(s.awaitAlone(handoverLimit))
	lab.Unharmed(t, load)
	a, err := s.ask()
	s.must(err)
	if handed, failed := a.Counts["handed over to a newcomer"], a.Counts["a newcomer failed, its parent serves on"]; handed != 3 || failed != 0 {
		t.Errorf("%d handovers and %d newcomers that failed, want three and none", handed, failed)
	}
}

// Two replaced Envoys work on beside the one that serves: a stop ends all three, and what is answered meanwhile is whole.
func TestAStopOfThree(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--parentShutdownDuration", "120s", "--drainDuration", "1s", "--terminationDrainDuration", "60s")
	first := s.hold()
	s.awaitInFlight(1)
	s.handsOver(2)
	second := s.hold()
	s.awaitInFlight(2)
	s.handsOver(3)
	third := s.hold()
	s.awaitInFlight(3)
	s.must(s.awaitStatus(lab.StopLimit, "three Envoys", func(a agentStatus) bool { return len(a.Epochs) == 3 && a.Epochs[2].State == "serving" }))
	s.Signal(syscall.SIGTERM)
	s.must(s.AwaitLog("msg=stopping"))
	close(s.program.held)
	for _, answered := range []<-chan error{first, second, third} {
		s.must(<-answered)
	}
	code, err := s.Wait(lab.StopLimit)
	s.must(err)
	if log := s.Log(); code != 0 || strings.Contains(log, "level=ERROR") || strings.Contains(log, "listeners not drained") {
		t.Errorf("exit status %d:\n%s", code, tail(log, 30))
	}
}

// hold sends a request that the program answers when the test lets it. On a busy machine that is later than other requests may take.
func (s *standalone) hold() <-chan error { return s.holdAt(s.address) }

// holdAt is hold through another listener.
func (s *standalone) holdAt(address string) <-chan error {
	return sendBy(&http.Client{Timeout: 3 * startLimit, Transport: &http.Transport{DisableKeepAlives: true}}, address, "/held")
}

// handsOver changes the configuration, and waits until it is in force.
func (s *standalone) handsOver(revision int) {
	s.t.Helper()
	s.configure(revision)
	s.must(s.awaitRevision(revision, handoverLimit))
}

// stopsQuickly stops an agent in an overlap, when nothing is in flight but a connection that its client keeps.
func (s *standalone) stopsQuickly() {
	s.t.Helper()
	watch := lab.StartStopwatch()
	if code := s.Stop(lab.StopLimit); code != 0 {
		s.t.Errorf("exit status %d, want 0", code)
	}
	watch.Within(s.t, 5*time.Second, "an idle stop after a hot handover")
}
