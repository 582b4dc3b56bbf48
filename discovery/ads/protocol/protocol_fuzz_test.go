package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// For any requests of a client and any changes of the state: no panic, no name twice in a response, only the newest
// nonce counts, and a client that then answers everything ends with all resources.
func FuzzProtocol(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})
	f.Add([]byte("subscribe, push, acknowledge, refuse, and subscribe again to what is gone"))
	f.Fuzz(func(t *testing.T, script []byte) {
		for v := range content.Variants {
			play(t, v, script)
		}
	})
}

// player turns bytes into actions of a client, valid or not.
type player struct {
	t      *testing.T
	p      *Session
	script []byte
	last   [content.Kinds]Response
	clock  time.Time
}

func play(t *testing.T, v content.Variant, script []byte) {
	g := &player{t: t, script: script[:min(len(script), 1000)], clock: now}
	g.p = New(v, base, content.NewShare(content.NewInterner()), g.world())
	for len(g.script) > 0 {
		g.clock = g.clock.Add(time.Second)
		if g.byte()%3 == 0 {
			g.push()
		} else {
			g.request()
		}
	}
	g.clock = g.clock.Add(longestWipe) // a wait ends
	g.p.Renew(g.p.latest, content.NewShare(g.p.share.Interner), MeshState{})
	g.receive(g.p.Flush(g.clock))
	for range 8 * content.Kinds { // it answers all responses, and each answer may cause further ones
		for k := range content.Kinds {
			if g.p.types[k].pending {
				r := &Request{Variant: v, Nonce: g.last[k].Nonce, version: g.last[k].Version}
				if v == content.SotW {
					r.Names = g.p.types[k].names
				}
				g.take(k, r)
			}
		}
	}
	if !g.p.Reached() || !g.p.Idle() {
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
	s := &content.Snapshot{}
	for k := range content.Kinds {
		var words string
		for _, w := range g.words("%s=%d ") {
			words += w
		}
		s[k] = made(k, words)
	}
	g.p.Renew(s, content.NewShare(g.p.share.Interner), g.world())
	g.receive(g.p.Flush(g.clock))
}

const longestWipe = 3 * time.Second // of world

// world makes one in which a client that comes back may have to wait.
func (g *player) world() MeshState {
	b := g.byte()
	return MeshState{Lacks: b&3 == 3, Forgone: b>>4&3 == 3, Wipe: time.Duration(b>>2&3) * longestWipe / 3}
}

func (g *player) request() {
	k := content.Kind(g.byte()) % content.Kinds
	r := &Request{Variant: g.p.variant}
	what := g.byte()
	if what&1 == 1 {
		r.Nonce = g.last[k].Nonce
	}
	if what&2 == 2 {
		r.Refusal = "no"
	}
	if what&4 == 4 {
		r.version = g.last[k].Version
	}
	r.Names = g.list(what & 8)
	if r.Variant == content.Delta {
		r.unsubscribe = g.list(what & 16)
		if what&32 == 32 && !g.p.types[k].asked {
			r.initial = g.had(k)
		}
	}
	g.take(k, r)
}

func (g *player) list(star int) *content.Names {
	list := g.words("%s")
	for i := range list {
		list[i] = list[i][:1]
	}
	return g.p.share.Interner.With(list, star != 0)
}

// had returns resources that the client has, of some content.
func (g *player) had(k content.Kind) content.Versions {
	versions := map[string]string{}
	for _, word := range g.words("%s=%d ") {
		name, _, _ := strings.Cut(word, "=")
		versions[name] = made(k, word).All()[0].Version
	}
	return scan(g.t, g.p.share.Interner, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.TypeURL(), InitialResourceVersions: versions}).initial
}

func (g *player) take(k content.Kind, r *Request) {
	responses, _, err := g.p.Request(k, r, g.clock)
	if err != nil {
		g.t.Fatal(err)
	}
	g.receive(responses)
}

func (g *player) receive(responses []Response) {
	for i := range responses {
		r := &responses[i]
		var names []string
		for _, resource := range resourcesOf(*r) {
			names = append(names, resource.Name)
		}
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			g.t.Errorf("%s: a name is in one response twice: %v", r.Kind, names)
		}
		if r.Nonce == g.last[r.Kind].Nonce || r.Nonce == "" {
			g.t.Errorf("%s: nonce %q again", r.Kind, r.Nonce)
		}
		if size := 0; len(r.Tail()) > 0 {
			for _, p := range r.Update.Lists {
				_, n := p.Pieces(r.Variant)
				size += n
			}
			if size != r.Size() {
				g.t.Errorf("%s: %d bytes, want %d", r.Kind, size, r.Size())
			}
		}
		g.last[r.Kind] = *r
	}
}
