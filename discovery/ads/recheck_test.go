package ads

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// "*" after names is answered with everything, although all of it was sent by name.
func TestEverythingAfterNames(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.connect(v)
		c.want("names", c.subscribe(content.CDS, "a", "b"), "cds:a,b")
		c.want("ACK", c.ack(content.CDS), "")
		c.names[content.CDS] = []string{"*"}
		c.want("everything", c.subscribe(content.CDS, "*"), "cds:a,b")
		c.want("ACK", c.ack(content.CDS), "")
		r.push(state("a=1 b=1 c=1", "", "", ""))
		c.want("what nobody named", c.got(), map[content.Variant]string{content.SotW: "cds:a,b,c", content.Delta: "cds:c"}[v])
	})
}

// Clusters were replaced by a server that had no record of Envoy's state: the endpoints that Envoy reports to have may
// be incomplete.
func TestRewarmedEndpointsAreTold(t *testing.T) {
	overWire(t, base, func(r *rig) {
		before := r.started(content.Delta, base)
		c := r.connect(content.Delta)
		c.want("CDS without versions", c.sub(content.CDS), "cds:a,b")
		c.want("EDS, all equal", c.resume(content.EDS, before.versions[content.EDS], "a", "b"), "eds:a,b")
	})
}

// The response to an answer has the newest state, even if no pusher has reached the stream yet.
func TestAnswersBringTheNewest(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.started(v, base)
		r.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1"))
		c.want("a change", c.got(), "eds:a")
		g := r.current.Load().follow(adstest.Mesh(1), model.Change{}, r.names)
		next := state("a=1 b=1", "a=2 b=2", "l=1", "r=1")
		g.Snapshots.Get(content.Reader{View: adstest.View(r.t, "127.0.0.9")}, func() *content.Snapshot { return next })
		r.current.Store(g)
		c.want("its answer", c.ack(content.EDS), "eds:b")
	})
}

// stuckWire is a stream that accepts a response only when the test allows it.
type stuckWire struct {
	grpc.ServerStream
	took chan content.Kind
}

func (w stuckWire) Context() context.Context { return context.Background() }
func (w stuckWire) SendMsg(m any) error      { w.took <- m.(*protocol.Response).Kind; return nil }

// A push that comes while a stream sends is not lost: whether the stream sends an answer, the responses after an
// answer, a push of one response, or a push of several.
func TestPushWhileAnotherIsSent(t *testing.T) {
	listener, route := state("a=1 b=1", "a=1 b=1", "l=2", "r=1"), state("a=1 b=1", "a=1 b=1", "l=2", "r=2")
	endpoint := state("a=1 b=1", "a=2 b=1", "l=2", "r=2")
	for name, test := range map[string]struct {
		first  *content.Snapshot   // nil if it answers a request first, with endpoints
		pushes []*content.Snapshot // one before each response is taken
		want   []content.Kind
	}{
		"an answer":         {nil, []*content.Snapshot{listener}, []content.Kind{content.EDS, content.LDS}},
		"what it left":      {nil, []*content.Snapshot{listener, route}, []content.Kind{content.EDS, content.LDS, content.RDS}},
		"one response":      {listener, []*content.Snapshot{route}, []content.Kind{content.LDS, content.RDS}},
		"several responses": {route, []*content.Snapshot{endpoint}, []content.Kind{content.LDS, content.RDS, content.EDS}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{running: run(t), t: t}
				r.push(base)
				p, nonce := settled(t, r.names)
				st := newStream(&r.hub, r.Server, stuckWire{took: make(chan content.Kind)}, content.SotW, aggregated)
				st.session, st.reader = p, content.Reader{View: adstest.View(t, "127.0.0.9")}
				r.mu.Lock()
				r.proxies[st] = true
				r.mu.Unlock()
				if test.first != nil {
					r.push(test.first)
				} else {
					go st.handle(&protocol.Request{Intern: r.names, TypeURL: content.EndpointType, Nonce: nonce, Names: r.names.Of([]string{"a", "b", "c"})})
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
				delete(r.proxies, st)
				r.mu.Unlock()
			})
		})
	}
}

// A proxy that connects is news, once: notes depend on the proxies that are connected.
func TestConnectedProxiesAreNews(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		news := 0
		r.OnNews(func() { news++ })
		c := r.started(v, base)
		if news != 1 || len(r.Proxies()) != 1 {
			t.Errorf("%s: after its first requests there are %d news and %d proxies, want one of each", v, news, len(r.Proxies()))
		} else if w := r.Proxies()[0]; w.Name != "app" || !w.New {
			t.Errorf("%s: the proxy is %q, new %t", v, w.Name, w.New)
		}
		r.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1"))
		c.want("a change", c.got(), "eds:a")
		if c.want("ACK", c.ack(content.EDS), ""); news != 1 {
			t.Errorf("%s: an ACK is news", v)
		}
	})
}

// A stream sends held responses by itself when their time has come.
func TestWhatWaitsIsSentThoughEnvoyIsSilent(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.started(v, base)
		r.push(state("a=1 b=1 c=1", "a=1 b=1 c=1", "l=1", "r=c"))
		c.want("c comes", c.got(), map[content.Variant]string{content.SotW: "cds:a,b,c", content.Delta: "cds:c"}[v])
		pass(protocol.Patience - time.Millisecond)
		c.want("its route waits", c.got(), "")
		pass(time.Millisecond)
		c.want("and waits no longer", c.got(), "rds:r")
	})
}
