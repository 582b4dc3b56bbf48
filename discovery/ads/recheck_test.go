package ads

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// "*" after names is answered with everything, although all of it was sent by name.
func TestEverythingAfterNames(t *testing.T) {
	both(t, base_ads, func(r *rig, v variant) {
		c := r.connect(v)
		c.want("names", c.subscribe(cds, "a", "b"), "cds:a,b")
		c.want("ACK", c.ack(cds), "")
		c.names[cds] = []string{"*"}
		c.want("everything", c.subscribe(cds, "*"), "cds:a,b")
		c.want("ACK", c.ack(cds), "")
		r.push(state_ads("a=1 b=1 c=1", "", "", ""))
		c.want("what nobody named", c.got(), map[variant]string{sotw: "cds:a,b,c", delta: "cds:c"}[v])
	})
}

// Clusters were replaced by a server that had no record of Envoy's state: the endpoints that Envoy reports to have may
// be incomplete.
func TestRewarmedEndpointsAreTold(t *testing.T) {
	overWire(t, base_ads, func(r *rig) {
		before := r.started(delta, base_ads)
		c := r.connect(delta)
		c.want("CDS without versions", c.sub(cds), "cds:a,b")
		c.want("EDS, all equal", c.resume(eds, before.versions[eds], "a", "b"), "eds:a,b")
	})
}

// The response to an answer has the newest state, even if no pusher has reached the stream yet.
func TestAnswersBringTheNewest(t *testing.T) {
	both(t, base_ads, func(r *rig, v variant) {
		c := r.started(v, base_ads)
		r.push(state_ads("a=1 b=1", "a=2 b=1", "l=1", "r=1"))
		c.want("a change", c.got(), "eds:a")
		g := r.current.Load().follow(adstest.Mesh(1), model.Change{}, r.names)
		next := state_ads("a=1 b=1", "a=2 b=2", "l=1", "r=1")
		g.snapshots.get(reader{View: adstest.View(r.t, "127.0.0.9")}, func() *snapshot { return next })
		r.current.Store(g)
		c.want("its answer", c.ack(eds), "eds:b")
	})
}

// stuckWire is a stream that accepts a response only when the test allows it.
type stuckWire struct {
	grpc.ServerStream
	took chan kind
}

func (w stuckWire) Context() context.Context { return context.Background() }
func (w stuckWire) SendMsg(m any) error      { w.took <- m.(*response).kind; return nil }

// A push that comes while a stream sends is not lost: whether the stream sends an answer, the responses after an
// answer, a push of one response, or a push of several.
func TestPushWhileAnotherIsSent(t *testing.T) {
	listener, route := state_ads("a=1 b=1", "a=1 b=1", "l=2", "r=1"), state_ads("a=1 b=1", "a=1 b=1", "l=2", "r=2")
	endpoint := state_ads("a=1 b=1", "a=2 b=1", "l=2", "r=2")
	for name, test := range map[string]struct {
		first  *snapshot   // nil if it answers a request first, with endpoints
		pushes []*snapshot // one before each response is taken
		want   []kind
	}{
		"an answer":         {nil, []*snapshot{listener}, []kind{eds, lds}},
		"what it left":      {nil, []*snapshot{listener, route}, []kind{eds, lds, rds}},
		"one response":      {listener, []*snapshot{route}, []kind{lds, rds}},
		"several responses": {route, []*snapshot{endpoint}, []kind{lds, rds, eds}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{running: run(t), t: t}
				r.push(base_ads)
				p, nonce := settled(t, r.names)
				st := newStream(&r.hub, r.Server, stuckWire{took: make(chan kind)}, sotw, aggregated)
				st.protocol, st.reader = p, reader{View: adstest.View(t, "127.0.0.9")}
				r.mu.Lock()
				r.streams[st] = true
				r.mu.Unlock()
				if test.first != nil {
					r.push(test.first)
				} else {
					go st.handle(&request{intern: r.names, typeURL: endpointType, nonce: nonce, names: r.names.of([]string{"a", "b", "c"})})
				}
				took := st.wire.(stuckWire).took
				for i, want := range test.want {
					synctest.Wait()
					if i < len(test.pushes) {
						r.push(test.pushes[i])
					}
					synctest.Wait()
					select {
					case got := <-took:
						if got != want {
							t.Errorf("got %s, want %s", got, want)
						}
					default:
						t.Fatalf("%s is never sent", want)
					}
				}
				synctest.Wait()
				r.mu.Lock()
				delete(r.streams, st)
				r.mu.Unlock()
			})
		})
	}
}

// A proxy that connects is news, once: notes depend on the proxies that are connected.
func TestConnectedProxiesAreNews(t *testing.T) {
	both(t, base_ads, func(r *rig, v variant) {
		news := 0
		r.OnNews(func() { news++ })
		c := r.started(v, base_ads)
		if news != 1 || len(r.Proxies()) != 1 {
			t.Errorf("%s: after its first requests there are %d news and %d proxies, want one of each", v, news, len(r.Proxies()))
		} else if w := r.Proxies()[0]; w.Name != "app" || !w.New {
			t.Errorf("%s: the proxy is %q, new %t", v, w.Name, w.New)
		}
		r.push(state_ads("a=1 b=1", "a=2 b=1", "l=1", "r=1"))
		c.want("a change", c.got(), "eds:a")
		if c.want("ACK", c.ack(eds), ""); news != 1 {
			t.Errorf("%s: an ACK is news", v)
		}
	})
}

// A stream sends held responses by itself when their time has come.
func TestWhatWaitsIsSentThoughEnvoyIsSilent(t *testing.T) {
	both(t, base_ads, func(r *rig, v variant) {
		c := r.started(v, base_ads)
		r.push(state_ads("a=1 b=1 c=1", "a=1 b=1 c=1", "l=1", "r=c"))
		c.want("c comes", c.got(), map[variant]string{sotw: "cds:a,b,c", delta: "cds:c"}[v])
		pass(patience - time.Millisecond)
		c.want("its route waits", c.got(), "")
		pass(time.Millisecond)
		c.want("and waits no longer", c.got(), "rds:r")
	})
}
