package ads

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// First connect, then a change of one endpoint: it is pushed alone, and can be followed to its ACK.
func TestConnectAndChange(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *envoyLab) {
		e := l.start(0)
		l.answers("one")
		if c := l.clients(1)[0]; !strings.Contains(c.Version, "1.40") || c.Variant != map[bool]string{false: "sotw", true: "delta"}[l.delta] {
			t.Errorf("connected: %+v", c)
		}
		load := lab.StartLoad(l.proxy, "http://"+echoHost+"/", 2, 1)
		l.serve("two")
		l.answers("two")
		lab.Unharmed(t, load)
		l.Check(lab.Eventually(lab.StopLimit, func() error {
			var pushes []ads.Push
			if err := l.debug("push_status", &pushes); err != nil {
				return err
			}
			last := pushes[len(pushes)-1]
			if last.Waiting != 0 || len(last.Cause) != 1 || last.Responses["eds"] != 1 || len(last.Responses) != 1 || last.Last.IsZero() {
				return fmt.Errorf("the last push: %+v", last)
			}
			return nil
		}))
		for _, kind := range []string{"cluster_manager.cds", "listener_manager.lds"} {
			if n := l.stat(e, kind+".update_rejected"); n != 0 {
				t.Errorf("%s.update_rejected = %d", kind, n)
			}
		}
		l.measures(`pilot_xds_pushes_total{result="acked",type="eds"}`, `pilot_xds{type="sidecar"`, "pilot_proxy_convergence_time_count 1")
	})
}

// measures waits until discovery's metrics have all of these.
func (l *envoyLab) measures(wants ...string) {
	l.T.Helper()
	l.Check(lab.Eventually(lab.StopLimit, func() error {
		body, err := lab.Get("http://" + l.Discovery.Monitoring + "/metrics")
		for _, want := range wants {
			if err == nil && !strings.Contains(body, want) {
				err = fmt.Errorf("/metrics has no %s", want)
			}
		}
		return err
	}))
}

// A listener that cannot be bound is refused: told with Envoy's words, not sent again, and mended by the next change.
func TestNack(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *envoyLab) {
		l.start(0)
		l.answers("one")
		l.Write("sidecar.yaml", strings.ReplaceAll(sidecar, "BIND", "203.0.113.1")) // not an address of this machine
		var nacked protocol.Type
		l.Check(lab.Eventually(lab.StopLimit, func() error {
			var clients []ads.Client
			if err := l.debug("adsz", &clients); err != nil {
				return err
			}
			if nacked = clients[0].Types[2]; nacked.State != protocol.StateNacked {
				return fmt.Errorf("LDS is %s", nacked.State)
			}
			return nil
		}))
		if nacked.Nack == nil || !strings.Contains(nacked.Nack.Text, "203.0.113.1") {
			t.Errorf("NACK %+v, want Envoy's words", nacked.Nack)
		}
		l.answers("one")
		sent := l.relay.Down()
		l.Write("sidecar.yaml", strings.ReplaceAll(sidecar, "BIND", l.Address(9)))
		l.clients(1)
		if grown := l.relay.Down() - sent; grown == 0 {
			t.Error("the mended listener was not sent")
		}
	})
}

const sidecar = `apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: own, namespace: default}
spec:
  ingress: [{port: {number: 8080, name: http, protocol: HTTP}, bind: BIND, defaultEndpoint: "127.0.0.1:9"}]
`

// A connection that breaks, and a server that restarts: nothing is sent again that did not change, no cluster and no
// listener is touched, no request fails.
func TestReconnectSendsNothingAnew(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *envoyLab) {
		e := l.start(0)
		l.answers("one")
		l.clients(1)
		first := l.relay.Down()
		load := lab.StartLoad(l.proxy, "http://"+echoHost+"/", 2, 1)
		for name, reconnect := range map[string]func(){
			"the connection breaks": l.relay.Cut,
			"the server restarts": func() {
				l.Discovery.Stop(lab.StopLimit)
				l.Check(l.Discovery.Restart())
			},
		} {
			before := l.clients(1)[0].Peer
			modified := l.stat(e, "cluster_manager.cluster_modified") + l.stat(e, "listener_manager.listener_modified")
			down := l.relay.Down()
			reconnect()
			l.Check(lab.Eventually(30*time.Second, func() error {
				if again := l.clients(1)[0].Peer; again == before {
					return fmt.Errorf("still the old stream, %s", again)
				}
				return nil
			}))
			bytes := l.relay.Down() - down
			t.Logf("%s: %d bytes, of %d at first", name, bytes, first)
			if bytes > first/20 {
				t.Errorf("%s: %d bytes were sent, of %d at first: want next to nothing", name, bytes, first)
			}
			if now := l.stat(e, "cluster_manager.cluster_modified") + l.stat(e, "listener_manager.listener_modified"); now != modified {
				t.Errorf("%s: %d clusters and listeners were modified", name, now-modified)
			}
		}
		lab.Unharmed(t, load)
		l.serve("two") // and what changes is sent
		l.answers("two")
	})
}

// In a hot restart two Envoys of one node are connected; both are told of a change.
func TestTwoEpochsOfOneNode(t *testing.T) {
	t.Parallel()
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) {
			t.Parallel() // each waits fifteen seconds for the end of a parent
			twoEpochsOfOneNode(t, newEnvoyLab(t, variant))
		})
	}
}

func twoEpochsOfOneNode(t *testing.T, l *envoyLab) {
	l.start(0)
	l.answers("one")
	l.clients(1)
	load := lab.StartSlowLoad(l.proxy, "http://"+echoHost+"/", 2, 1, 20*time.Millisecond)
	l.start(1)
	clients := l.clients(2)
	if clients[0].Node != clients[1].Node || clients[0].Peer == clients[1].Peer {
		t.Errorf("streams %s of %s and %s of %s", clients[0].Peer, clients[0].Node, clients[1].Peer, clients[1].Node)
	}
	l.serve("two")
	l.Check(lab.Eventually(lab.StopLimit, func() error {
		var pushes []ads.Push
		if err := l.debug("push_status", &pushes); err != nil {
			return err
		}
		if last := pushes[len(pushes)-1]; last.Responses["eds"] != 2 || len(last.Responses) != 1 { // the first push has all types of both
			return fmt.Errorf("the last push: %+v", last)
		}
		return nil
	}))
	l.answers("two")
	l.clients(1) // the parent is gone: fifteen seconds after its child serves
	lab.Unharmed(t, load)
}
