package agent

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Another program takes a port while Envoy restarts: the proxy is unready and names it, and serves there again soon after the program has
// let go of it. The other listener loses nothing meanwhile.
func TestPortStolenInARestart(t *testing.T) {
	t.Parallel()
	for _, variant := range []string{"delta", "sotw"} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			p := startPupil(t, startScript(t), "--xdsVariant", variant, "--drainDuration", "1s", "--parentShutdownDuration", "2s")
			p.clusters(p.good)
			p.listeners(tcpListener("l", p.inbound[0], "good"), tcpListener("m", p.inbound[1], "good"))
			p.await("healthy", healthy)
			p.serves(p.inbound[0])
			thief := p.steal(p.inbound[0])
			p.await("unready", unready("ListenersBound: Envoy cannot listen at "+p.inbound[0]+", where it served before: process "))
			load := lab.StartSlowLoad(p.inbound[1], "http://"+p.inbound[1]+"/", 2, 2, 20*time.Millisecond)
			p.serves(p.inbound[1])
			thief.Close()
			p.await("healthy", healthy)
			p.serves(p.inbound[0])
			lab.Unharmed(t, load)
		})
	}
}

// The only inbound port of a sidecar is another program's when it starts: the proxy is unready though it listens for outbound traffic, names
// the program, and serves soon after the program has let go of the port.
func TestPortTakenAtTheFirstStart(t *testing.T) {
	t.Parallel()
	for _, variant := range []string{"delta", "sotw"} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			p := startPupil(t, startScript(t), "--xdsVariant", variant, "--drainDuration", "1s", "--parentShutdownDuration", "2s")
			thief, err := net.Listen("tcp", p.inbound[0])
			p.must(err)
			p.clusters(p.good)
			outbound := strings.Replace(tcpListener("m", p.inbound[1], "good"), "INBOUND", "OUTBOUND", 1)
			p.listeners(tcpListener("l", p.inbound[0], "good"), outbound)
			p.await("unready", unready("ListenersBound: Envoy cannot listen at "+p.inbound[0]+": process "))
			p.serves(p.inbound[1])
			thief.Close()
			p.await("healthy", healthy)
			p.serves(p.inbound[0])
		})
	}
}

// steal kills Envoy, and listens at an address before the next one does. A try that comes too late is made again.
func (p *pupil) steal(address string) net.Listener {
	p.t.Helper()
	var thief net.Listener
	p.must(lab.Eventually(startLimit*2, func() error {
		for _, pid := range envoysIn(p.ConfigPath) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		var err error
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			if thief, err = net.Listen("tcp", address); err == nil {
				return nil
			}
		}
		return fmt.Errorf("the port is not stolen: %s", strings.TrimSpace(err.Error()))
	}))
	return thief
}
