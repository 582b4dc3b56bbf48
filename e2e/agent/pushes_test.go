package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// For a minute after a hot handover Envoy asks its parent for the socket of each new listener, and its main thread waits for the answer. Where
// the parent has ended early the agent answers.
func TestPushesAfterAHandover(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	g.run("--handover", "hot", "--parentShutdownDuration", "1m")
	load := g.lightLoad()
	g.configure(2)
	g.takesOver()
	pid := g.pid("serving")
	host, port, _ := strings.Cut(g.address, ":")
	at := func(i int) string { return fmt.Sprintf("%s%d:%s", strings.TrimSuffix(host, "1"), i, port) }
	for revision := 2; revision < 7; revision++ {
		var listeners []string // the first with another filter chain, and one more
		for i := 1; i <= revision; i++ {
			listeners = append(listeners, listenerOf(fmt.Sprint("inbound-", i), at(i), revision))
		}
		g.say(listeners...)
		for _, address := range []string{at(1), at(revision)} {
			there := *g.standalone
			there.address = address
			g.must(there.awaitRevision(revision, lab.StopLimit))
		}
	}
	lab.Unharmed(t, load)
	if now := g.pid("serving"); now != pid {
		t.Errorf("process %d serves, want still %d", now, pid)
	}
}
