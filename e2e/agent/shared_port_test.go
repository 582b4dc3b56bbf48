package agent

import (
	"fmt"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Two proxies of one host get the same address, which Linux allows: the one that comes second says so and is unready, until the
// first one leaves.
func TestTwoProxiesShareAPort(t *testing.T) {
	t.Parallel()
	first := startPupil(t, startScript(t))
	first.clusters(first.good)
	first.listeners(tcpListener("l", first.inbound[0], "good"))
	first.await("ready", healthy)
	first.serves(first.inbound[0])

	second := startPupil(t, startScript(t))
	second.clusters(second.good)
	second.listeners(tcpListener("l", first.inbound[0], "good"), tcpListener("m", second.inbound[1], "good"))
	second.await("unready", unready(" (envoy) also listens on "+first.inbound[0]+", and gets some of the connections"))
	second.must(second.AwaitLog("a port of Envoy is shared"))
	first.await("as ready as before", healthy)
	if code := first.Stop(lab.StopLimit); code != 0 {
		t.Errorf("exit status %d", code)
	}
	second.await("ready", healthy)
	second.serves(first.inbound[0])

	// A new configuration, and so a new epoch beside the old one, is no other process.
	second.listeners(tcpListener("l", first.inbound[0], "good"), tcpListener("m", second.inbound[2], "good"))
	second.serves(second.inbound[2])
	second.await(fmt.Sprint("ready with ", second.inbound[2]), healthy)
}
