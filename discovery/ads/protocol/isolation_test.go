package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// routesOf makes one route configuration of hosts, given as name=content.
func routesOf(words ...string) *content.Snapshot {
	m := &routev3.RouteConfiguration{Name: "80", IgnorePortInHostMatching: true}
	for _, word := range words {
		name, text, _ := strings.Cut(word, "=")
		m.VirtualHosts = append(m.VirtualHosts, &routev3.VirtualHost{Name: name, Domains: []string{name + ".test"}, Routes: []*routev3.Route{{
			Name: text, Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 200}},
		}}})
	}
	s := state("", "", "", "")
	s[content.RDS] = content.NewSet(content.RDS, []*content.Resource{content.Encode("80", m)})
	return s
}

// refuser is an Envoy that requests only the route configuration 80 and refuses it as a whole if bad returns true for
// one of its hosts.
type refuser struct {
	*envoy
	bad   func(host *routev3.VirtualHost) bool
	words func(host *routev3.VirtualHost) string // returns the error text of a refusal
	has   []string                               // the hosts that it serves: name=content
	sent  int
}

func refuses(t *testing.T, s *content.Snapshot, bad func(host *routev3.VirtualHost) bool) *refuser {
	e := &refuser{envoy: connect(t, s), bad: bad, words: func(*routev3.VirtualHost) string { return "no" }}
	e.names[content.RDS] = []string{"80"}
	e.settle(e.ask(content.RDS, "80"))
	return e
}

func contentIs(text string) func(*routev3.VirtualHost) bool {
	return func(h *routev3.VirtualHost) bool {
		return slices.ContainsFunc(h.Routes, func(r *routev3.Route) bool { return r.Name == text })
	}
}

// settle answers responses until there are no more.
func (e *refuser) settle(got string) {
	e.t.Helper()
	for ; got != ""; e.sent++ {
		if e.sent > 3*maxTrials {
			e.t.Fatal("responses without end")
		}
		r := resourcesOf(e.last[content.RDS])[0]
		packed, m := &anypb.Any{}, &routev3.RouteConfiguration{}
		if err := proto.Unmarshal(r.Whole(), packed); err != nil {
			e.t.Fatal(err)
		}
		if err := packed.UnmarshalTo(m); err != nil || !m.IgnorePortInHostMatching {
			e.t.Fatalf("what stands beside the hosts is gone: %v %v", err, m)
		}
		if at := slices.IndexFunc(m.VirtualHosts, e.bad); at >= 0 {
			got = e.nack(content.RDS, e.words(m.VirtualHosts[at]))
			continue
		}
		e.has = nil
		for _, h := range m.VirtualHosts {
			text := h.Routes[0].Name
			if h.Routes[0].GetDirectResponse().GetStatus() == 503 {
				text = "503"
			}
			e.has = append(e.has, h.Name+"="+text)
		}
		got = e.ack(content.RDS)
	}
}

func (e *refuser) change(s *content.Snapshot) {
	e.t.Helper()
	e.sent = 0
	e.settle(e.push(s))
}

func (e *refuser) serves(what string, want ...string) {
	e.t.Helper()
	if !slices.Equal(e.has, want) {
		e.t.Errorf("%s: serves %v, want %v", what, e.has, want)
	}
	if e.protocol.types[content.RDS].isolation != nil && e.protocol.types[content.RDS].isolation.order != nil {
		e.t.Errorf("%s: the search goes on", what)
	}
}

// A running proxy keeps the last good form of a host that it refuses, at once; all others change as usual.
func TestRefusedHostKeepsItsLastGoodForm(t *testing.T) {
	e := refuses(t, routesOf("a=1", "b=1", "c=1"), contentIs("bad"))
	e.serves("at first", "a=1", "b=1", "c=1")
	e.change(routesOf("a=1", "b=bad", "c=1"))
	e.serves("b is refused", "a=1", "b=1", "c=1")
	if e.sent != 1 {
		t.Errorf("%d responses, want the refused one only", e.sent)
	}
	e.change(routesOf("a=2", "b=bad", "c=2", "d=1"))
	e.serves("others change", "a=2", "b=1", "c=2", "d=1")
	if e.sent != 1 {
		t.Errorf("%d responses for a change of others, want 1", e.sent)
	}
	e.change(routesOf("a=3", "b=bad", "c=bad", "d=1"))
	e.serves("and c", "a=3", "b=1", "c=2", "d=1")
	e.change(routesOf("a=3", "b=4", "c=bad", "d=1"))
	e.serves("b is mended", "a=3", "b=4", "c=2", "d=1")
	e.change(routesOf("a=3", "b=4", "d=1"))
	e.serves("c goes", "a=3", "b=4", "d=1")
	if n := len(e.protocol.types[content.RDS].isolation.refused); n != 0 {
		t.Errorf("%d refusals are remembered, want none", n)
	}
}

// A starting proxy gets all hosts but those that it refuses; these answer 503.
func TestRefusedHostsOfAProxyThatStarts(t *testing.T) {
	for name, speaks := range map[string]bool{"its words name nothing": false, "its words quote what it refuses": true} {
		t.Run(name, func(t *testing.T) {
			var words, want []string
			for i := range 1000 {
				text, has := "fine", "fine"
				if i == 17 || i == 500 || i == 999 {
					text, has = "verybad", "503"
				}
				words, want = append(words, fmt.Sprintf("h%03d=%s", i, text)), append(want, fmt.Sprintf("h%03d=%s", i, has))
			}
			e := connect(t, routesOf(words...))
			r := &refuser{envoy: e, bad: contentIs("verybad"), words: func(*routev3.VirtualHost) string {
				return map[bool]string{true: "regex 'verybad' is too long", false: "no"}[speaks]
			}}
			e.names[content.RDS] = []string{"80"}
			r.settle(e.ask(content.RDS, "80"))
			r.serves("at the end", want...)
			if most := map[bool]int{true: 12, false: 45}[speaks]; r.sent > most {
				t.Errorf("%d responses, want at most %d", r.sent, most)
			}
		})
	}
}

// A stand-in that is refused as well is removed.
func TestStandInThatIsRefused(t *testing.T) {
	e := refuses(t, routesOf("a=1", "b=1", "c=1"), func(h *routev3.VirtualHost) bool { return h.Name == "b" })
	e.serves("at the end", "a=1", "c=1")
}

// A client that refuses everything gets a bounded number of responses, and other clients are not affected.
func TestWhoRefusesEverythingHarmsItself(t *testing.T) {
	var words []string
	for i := range 100 {
		words = append(words, fmt.Sprintf("h%03d=1", i))
	}
	s := routesOf(words...)
	e := refuses(t, s, func(*routev3.VirtualHost) bool { return true })
	if e.sent > 2*maxTrials || e.has != nil {
		t.Errorf("%d responses until nothing more is tried", e.sent)
	}
	other := New(content.SotW, s, e.protocol.share, MeshState{})
	responses, _, err := other.Request(content.RDS, scan(t, e.protocol.share.Interner, &discoveryv3.DiscoveryRequest{ResourceNames: []string{"80"}}), now)
	if err != nil || len(responses) != 1 || resourcesOf(responses[0])[0] != s[content.RDS].Find("80") {
		t.Errorf("another client gets %v, %v: want the shared resource itself", responses, err)
	}
}

// Two clients that refuse the same host share the replacement.
func TestFormsAreShared(t *testing.T) {
	s := routesOf("a=1", "b=bad")
	sh := content.NewShare(content.NewInterner())
	var got []*content.Resource
	for range 2 {
		e := &refuser{envoy: &envoy{t: t, clock: now, protocol: New(content.SotW, s, sh, MeshState{})}, bad: contentIs("bad")}
		e.words = func(*routev3.VirtualHost) string { return "no" }
		e.names[content.RDS] = []string{"80"}
		e.settle(e.ask(content.RDS, "80"))
		e.serves("at the end", "a=1", "b=503")
		got = append(got, e.protocol.types[content.RDS].sent.Find("80"))
	}
	if got[0] != got[1] {
		t.Error("each has a copy of its own")
	}
}

// Clusters because of which a whole response is refused are found as well; clusters that Envoy names and skips by
// itself need no search.
func TestRefusedClusters(t *testing.T) {
	e := start(t, base)
	e.want("c is bad", e.push(state("a=1 b=2 c=bad", "a=1 b=1", "l=1", "r=1")), "cds:a,b,c eds:b")
	e.want("without c", e.nack(content.CDS, "Proto constraint validation failed: c.test c"), "cds:a,b")
	e.want("again, with their clusters", e.ack(content.EDS), "eds:b")
	e.ack(content.EDS)
	e.want("ACK", e.ack(content.CDS), "")
	e.want("others", e.push(state("a=2 b=2 c=bad", "a=1 b=1", "l=1", "r=1")), "cds:a,b eds:a")
	e.ack(content.EDS)
	e.ack(content.CDS)
	e.want("mended", e.push(state("a=2 b=2 c=1", "a=1 b=1", "l=1", "r=1")), "cds:a,b,c")
	e.ack(content.CDS)
	e.want("d is bad", e.push(state("a=2 b=2 c=1 d=bad", "a=1 b=1", "l=1", "r=1")), "cds:a,b,c,d")
	e.want("it took the others", e.nack(content.CDS, "Error adding/updating cluster(s) d: bad"), "")
	if r := e.protocol.types[content.CDS].isolation.refused; len(r) != 1 {
		t.Errorf("refused: %v, want d", r)
	}
}
