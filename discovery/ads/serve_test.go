package ads

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// A stop ends within its time limit for any client: one that has connected and sends nothing, and one that opens
// streams when it receives a GOAWAY.
func TestStopEndsInTime(t *testing.T) {
	for name, attack := range map[string]func(t *testing.T, r *running){
		"a silent connection": func(t *testing.T, r *running) {
			conn, err := r.listener.Dial()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
		},
		"streams on GOAWAY": streamsOnGoAway,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stopUnder(t, testLimits(), attack)
			})
			synctest.Test(t, func(t *testing.T) {
				limits := testLimits()
				limits.Shutdown = 0
				stopUnder(t, limits, attack)
			})
		})
	}
}

func stopUnder(t *testing.T, limits Limits, attack func(t *testing.T, r *running)) {
	t.Helper()
	r := runWith(t, limits, nil)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	for range 8 {
		r.open().ask(content.ClusterType)
	}
	attack(t, r)
	synctest.Wait()
	start := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > limits.Shutdown {
		t.Errorf("stopped after %s, want at most %s", took, limits.Shutdown)
	}
}

// A connection without a stream does not keep its descriptor.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t)
		r.Push(adstest.Mesh(1, "a"), model.Change{})
		start := time.Now()
		_, gone := r.dialRaw(func(c *rawClient, f http2.Frame) { c.pong(f) })
		<-gone
		if took := time.Since(start); took > idle+30*time.Second {
			t.Errorf("closed after %s, want about %s", took, idle)
		}
	})
}

// streamsOnGoAway answers every GOAWAY, and every ping, with new streams, and continues to read.
func streamsOnGoAway(_ *testing.T, r *running) {
	r.dialRaw(func(c *rawClient, f http2.Frame) {
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			c.open()
		case *http2.PingFrame:
			c.open()
			c.pong(f)
		}
	})
}

// The services of one kind each give the same answers as the aggregated one, also without a type_url; they ignore other
// kinds.
func TestServicesOfOneKind(t *testing.T) {
	for k, path := range map[content.Kind]string{
		content.CDS: "/envoy.service.cluster.v3.ClusterDiscoveryService/%sClusters",
		content.EDS: "/envoy.service.endpoint.v3.EndpointDiscoveryService/%sEndpoints",
		content.LDS: "/envoy.service.listener.v3.ListenerDiscoveryService/%sListeners",
		content.RDS: "/envoy.service.route.v3.RouteDiscoveryService/%sRoutes",
	} {
		t.Run(k.String(), func(t *testing.T) {
			both(t, base, func(r *rig, v content.Variant) {
				var names []string
				for _, resource := range base[k].All() {
					names = append(names, resource.Name)
				}
				want := k.String() + ":" + strings.Join(names, ",")
				c := r.connectTo(r.client, v, strings.Replace(path, "%s", [content.Variants]string{"Stream", "Delta"}[v], 1))
				c.want("its kind", c.subscribe(k, names...), want)
				c.want("ACK", c.ack(k), "")
				c.want("another", c.subscribe((k+1)%content.Kinds, names...), "")
				r.push(state("a=2 b=2", "a=2 b=2", "l=2", "r=2"))
				c.want("a change", c.got(), want)

				bare := r.connectTo(r.client, v, strings.Replace(path, "%s", [content.Variants]string{"Stream", "Delta"}[v], 1))
				bare.want("without a type_url", bare.withoutType(names), want)
			})
		})
	}
}

// A client that sends pings more often than every five seconds gets a GOAWAY (ENHANCE_YOUR_CALM), and its connection is
// closed. Envoy's own keepalive is allowed, with or without a stream.
func TestKeepaliveIsEnforced(t *testing.T) {
	for name, test := range map[string]struct {
		every   time.Duration
		refused bool
	}{
		"a flood":      {100 * time.Millisecond, true},
		"Envoy's pace": {10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t)
				r.Push(adstest.Mesh(1, "a"), model.Change{})
				goodbye := make(chan http2.ErrCode, 1)
				client, gone := r.dialRaw(func(_ *rawClient, f http2.Frame) {
					if away, ok := f.(*http2.GoAwayFrame); ok && len(goodbye) == 0 {
						goodbye <- away.ErrCode
					}
				})
				for i := range byte(20) {
					pass(test.every)
					if client.WritePing(false, [8]byte{i}) != nil {
						break
					}
				}
				client.Close()
				<-gone
				close(goodbye)
				code, refused := <-goodbye
				if refused != test.refused || refused && code != http2.ErrCodeEnhanceYourCalm {
					t.Errorf("sent away: %t with %s, want %t", refused, code, test.refused)
				}
			})
		})
	}
}
