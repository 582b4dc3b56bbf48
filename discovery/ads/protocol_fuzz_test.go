package ads

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// For any requests of a client and any changes of the state: no panic, no name twice in a response, only the newest
// nonce counts, and a client that then answers everything ends with all resources.
func FuzzProtocol(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Add([]byte("subscribe, push, acknowledge, refuse, and subscribe again to what is gone"))
	f.Fuzz(func(t *testing.T, script []byte) {
		for v := range variants {
			play(t, v, script)
		}
	})
}

// player turns bytes into actions of a client, valid or not.
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
	for range 8 * kinds { // it answers all responses, and each answer may cause further ones
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
	g.p.renew(s, newShare(g.p.share.interner))
	g.receive(g.p.flush(g.clock))
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
		for _, resource := range resourcesOf(*r) {
			names = append(names, resource.name)
		}
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			g.t.Errorf("%s: a name is in one response twice: %v", r.kind, names)
		}
		if r.nonce == g.last[r.kind].nonce || r.nonce == "" {
			g.t.Errorf("%s: nonce %q again", r.kind, r.nonce)
		}
		if size := 0; len(r.tail()) > 0 {
			for _, p := range r.news.parts {
				_, n := p.pieces(r.variant)
				size += n
			}
			if size != r.size() {
				g.t.Errorf("%s: %d bytes, want %d", r.kind, size, r.size())
			}
		}
		g.last[r.kind] = *r
	}
}
