package ads

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Whatever a client says and however states change: no panic, no name twice in a response, nothing but the newest nonce
// counts, and a client that then answers everything ends with everything.
func FuzzProtocol(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Add([]byte("subscribe, push, acknowledge, refuse, and subscribe again to what is gone"))
	f.Fuzz(func(t *testing.T, script []byte) {
		for v := range variants {
			play(t, v, script)
		}
	})
}

// player turns bytes into what a client may do, sense or not.
type player struct {
	t      *testing.T
	p      *protocol
	script []byte
	last   [kinds]response
	clock  time.Time
}

func play(t *testing.T, v variant, script []byte) {
	g := &player{t: t, script: script[:min(len(script), 1000)], clock: now, p: newProtocol(v, base, newShare(newInterner()))}
	for len(g.script) > 0 {
		g.clock = g.clock.Add(time.Second)
		if g.byte()%3 == 0 {
			g.push()
		} else {
			g.request()
		}
	}
	for range 8 * kinds { // it answers all, each answer may bring something
		for k := range kinds {
			if g.p.types[k].pending {
				r := &request{variant: v, nonce: g.last[k].nonce, version: g.last[k].version}
				if v == sotw {
					r.names = g.p.types[k].names
				}
				g.take(k, r)
			}
		}
	}
	if !g.p.reached() || !g.p.idle() {
		t.Errorf("%s: everything is answered, and something waits: %+v", v, g.p.types)
	}
}

func (g *player) byte() int {
	if len(g.script) == 0 {
		return 0
	}
	b := g.script[0]
	g.script = g.script[1:]
	return int(b)
}

// words makes up to four names, or resources of two contents.
func (g *player) words(form string) (out []string) {
	b := g.byte()
	for i := range 4 {
		if b>>i&1 == 1 {
			out = append(out, fmt.Sprintf(form, "abcd"[i:i+1], b>>(4+i)&1))
		}
	}
	return out
}

func (g *player) push() {
	s := &snapshot{}
	for k := range kinds {
		var words string
		for _, w := range g.words("%s=%d ") {
			words += w
		}
		s[k] = content(k, words)
	}
	g.receive(g.p.push(s, newShare(g.p.share.interner), g.clock))
}

func (g *player) request() {
	k := kind(g.byte()) % kinds
	r := &request{variant: g.p.variant}
	what := g.byte()
	if what&1 == 1 {
		r.nonce = g.last[k].nonce
	}
	if what&2 == 2 {
		r.refusal = "no"
	}
	if what&4 == 4 {
		r.version = g.last[k].version
	}
	r.names = g.list(what & 8)
	if r.variant == delta {
		r.unsubscribe = g.list(what & 16)
	}
	g.take(k, r)
}

func (g *player) list(star int) *names {
	list := g.words("%s")
	for i := range list {
		list[i] = list[i][:1]
	}
	return g.p.share.interner.with(list, star != 0)
}

func (g *player) take(k kind, r *request) {
	responses, _, err := g.p.request(k, r, g.clock)
	if err != nil {
		g.t.Fatal(err)
	}
	g.receive(responses)
}

func (g *player) receive(responses []response) {
	for i := range responses {
		r := &responses[i]
		var names []string
		for _, resource := range r.resources() {
			names = append(names, resource.name)
		}
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			g.t.Errorf("%s: a name is in one response twice: %v", r.kind, names)
		}
		if r.nonce == g.last[r.kind].nonce || r.nonce == "" {
			g.t.Errorf("%s: nonce %q again", r.kind, r.nonce)
		}
		if _, err := newCodec().Marshal(r); err != nil {
			g.t.Error(err)
		}
		g.last[r.kind] = *r
	}
}

// Hostile clients of every sort, at once: another client is not disturbed, and when they are gone so is all they made.
func TestHostileClients(t *testing.T) {
	var words []string
	for i := range 500 {
		words = append(words, fmt.Sprintf("s%03d", i))
	}
	limits := testLimits()
	limits.SendTimeout = 2 * time.Second
	r := runWith(t, limits, nil)
	r.Push(meshOf(1, words...), model.Change{})
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var attackers sync.WaitGroup
	good := r.dial(insecure.NewCredentials())
	defer good.Close()
	calm := r.openOn(good)
	calm.ack(calm.ask(clusterType))
	for i := range 8 {
		attackers.Go(func() { attack(ctx, r, rand.New(rand.NewPCG(uint64(i), 1)), i) })
	}
	slowest := time.Duration(0)
	for i := range 10 {
		start := time.Now()
		r.Push(meshOf(1, append(words, fmt.Sprint("new", i))...), model.Change{})
		calm.ack(calm.next(clusterType))
		slowest = max(slowest, time.Since(start))
	}
	if slowest > deadline/2 {
		t.Errorf("another client waited %s for a push", slowest)
	}
	cancel()
	attackers.Wait()
	until(t, "the attackers' streams to end", func() bool { return len(r.Clients()) == 1 })
	r.Push(meshOf(1, words...), model.Change{}) // what was shared with them goes with its generation
	r.Push(meshOf(2, words...), model.Change{})
	calm.ack(calm.next(clusterType))
	for range 3 { // pools keep what they have for two
		runtime.GC()
	}
	runtime.ReadMemStats(&after)
	grown := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20
	t.Logf("%d MB grown, slowest push %s", grown, slowest)
	if grown > 64 {
		t.Errorf("%d MB are left of 8 hostile clients", grown)
	}
}

// attack floods one connection with one sort of nonsense, and never reads.
func attack(ctx context.Context, r *running, dice *rand.Rand, sort int) {
	conn := r.dial(insecure.NewCredentials())
	defer conn.Close()
	for ctx.Err() == nil {
		wire, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
		if err != nil {
			continue
		}
		for range 30 {
			m := &discoveryv3.DiscoveryRequest{Node: envoyNode(), TypeUrl: []string{clusterType, endpointType, routeType, "x", ""}[dice.IntN(5)]}
			switch sort % 4 {
			case 0: // names without end
				for range 5_000 {
					m.ResourceNames = append(m.ResourceNames, fmt.Sprint(dice.Uint64()))
				}
			case 1: // nonces and versions of others
				m.ResponseNonce, m.VersionInfo = fmt.Sprint(dice.IntN(5)), fmt.Sprint(dice.Uint64())
			case 2: // nodes without sense
				m.Node.Id = string([]byte{byte('a' + dice.IntN(26)), '~', '~', '~'})
			case 3: // NACKs of anything
				m.ErrorDetail = refused(string(make([]byte, dice.IntN(1<<16))))
			}
			if wire.Send(m) != nil {
				break
			}
		}
	}
}
