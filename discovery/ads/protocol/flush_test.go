package protocol

import (
	"fmt"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// later returns the responses that are sent after some time without any other event.
func (e *envoy) later(d time.Duration) string {
	e.t.Helper()
	e.clock = e.clock.Add(d)
	return e.receive(e.protocol.Flush(e.clock))
}

// One cluster never gets warm: its CDS response has no answer. Resources that do not name it do not wait for it, the
// others wait for a second.
func TestWarmingHoldsUpOnlyWhatNamesIt(t *testing.T) {
	for name, test := range map[string]struct {
		listeners, routes string
		atOnce, later     string
	}{
		"a weight":                   {"l=1", "r=2", "rds:r", ""},
		"a listener":                 {"l=1 m=1", "r=1", "lds:l,m", ""},
		"a route to the new cluster": {"l=1", "r=c", "", "rds:r"},
		"a route of two":             {"l=1 m=1", "r=c", "lds:l,m", "rds:r"},
		"a listener that names it":   {"l=c", "r=2", "rds:r", "lds:l"},
		"a route to a changed one":   {"l=1", "r=a", "rds:r", ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, base)
			e.want("c comes and does not get warm", e.push(state("a=2 b=1 c=1", "a=1 b=1", "l=1", "r=1")), "cds:a,b,c eds:a")
			e.ack(content.EDS)
			e.want("at once", e.push(state("a=2 b=1 c=1", "a=1 b=1", test.listeners, test.routes)), test.atOnce)
			e.want("soon", e.later(Patience-1), "")
			e.want("later", e.later(1), test.later)
			for _, k := range []content.Kind{content.LDS, content.RDS} {
				e.ack(k)
			}
			e.want("at last", e.ack(content.CDS), "")
			if !e.protocol.Reached() {
				t.Error("something is missing at the end")
			}
		})
	}
}

// Services are added while another one's cluster does not get warm: their clusters are sent a second later, then their
// routes. For an Envoy that sends nothing at all only one more response is sent.
func TestServicesComeWhileOneWarms(t *testing.T) {
	e := start(t, base)
	e.want("c comes", e.push(state("a=1 b=1 c=1", "a=1 b=1", "l=1", "r=1")), "cds:a,b,c")
	e.want("d comes", e.push(state("a=1 b=1 c=1 d=1", "a=1 b=1 d=1", "l=1", "r=d")), "")
	e.want("soon", e.later(Patience-1), "")
	e.want("its cluster", e.later(1), "cds:a,b,c,d")
	e.want("e comes", e.push(state("a=1 b=1 c=1 d=1 e=1", "a=1 b=1 d=1", "l=1", "r=e")), "")
	e.want("silence", e.later(10*Patience), "rds:r") // of d
	e.want("a word", e.ask(content.EDS, "a", "b", "c", "d"), "cds:a,b,c,d,e eds:c,d")
	e.ack(content.EDS)
	e.ack(content.RDS)
	e.want("its route", e.later(Patience), "rds:r")
	e.ack(content.RDS)
	e.want("all are warm", e.ack(content.CDS), "")
	if !e.protocol.Reached() {
		t.Error("something is missing at the end")
	}
}

// Endpoints that have no answer delay listeners and routes for a second, not longer.
func TestEndpointsWithoutAnAnswer(t *testing.T) {
	e := start(t, base)
	e.want("first", e.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1")), "eds:a")
	e.want("second", e.push(state("a=1 b=1", "a=2 b=2", "l=2", "r=2")), "")
	e.want("later", e.later(Patience), "lds:l rds:r")
}

// wakes returns a time if a response is held up, and only then.
func TestWakes(t *testing.T) {
	e := start(t, base)
	if wake := e.protocol.Wakes(now); !wake.IsZero() {
		t.Errorf("nothing to do, and woken at %s", wake)
	}
	e.push(state("a=1 b=1 c=1", "a=1 b=1", "l=1", "r=1"))
	if wake := e.protocol.Wakes(now); !wake.IsZero() {
		t.Errorf("nothing is held up, and woken at %s", wake)
	}
	e.push(state("a=1 b=1 c=1", "a=1 b=1", "l=1", "r=c"))
	if wake, want := e.protocol.Wakes(now.Add(time.Millisecond)), now.Add(Patience); !wake.Equal(want) {
		t.Errorf("a route is held up: woken at %s, want %s", wake, want)
	}
	e.later(Patience)
	if wake := e.protocol.Wakes(e.clock); !wake.IsZero() {
		t.Errorf("all is sent, and woken at %s", wake)
	}
}

// A listener is refused while services are added and removed: clusters to which nothing refers any more are removed.
func TestClustersDoNotPileUpBehindARefusal(t *testing.T) {
	for _, k := range []content.Kind{content.LDS, content.RDS} {
		t.Run(k.String(), func(t *testing.T) {
			e := start(t, base)
			bad := map[content.Kind][2]string{content.LDS: {"l=bad", "r=1"}, content.RDS: {"l=1", "r=bad"}}[k]
			e.push(state("a=1 b=1", "a=1 b=1", bad[0], bad[1]))
			e.nack(k, "bad")
			for i := range 100 {
				more := fmt.Sprintf("c%d", i)
				e.push(state("b=1 "+more+"=1", "b=1", bad[0], bad[1]))
				e.ack(content.CDS)
			}
			if got := e.protocol.types[content.CDS].sent; got.Size() != 3 || got.Find("a") == nil {
				t.Errorf("%d clusters, want those of the accepted state and the wanted one: a, b, c99", got.Size())
			}
			e.push(state("b=1", "b=1", "l=2", "r=2"))
			for _, k := range []content.Kind{content.LDS, content.RDS, content.CDS} {
				e.ack(k)
			}
			if got := e.protocol.types[content.CDS].sent; got.Size() != 1 {
				t.Errorf("%d clusters when all is accepted, want b", got.Size())
			}
		})
	}
}

// An Envoy answers for its clusters when they are warm: one that has sent a request since it received them is not slow,
// one that has sent nothing is.
func TestWarmingClustersAreNotSlow(t *testing.T) {
	start := time.Unix(1000, 0)
	p := connect(t, base).protocol
	for i, k := range []content.Kind{content.CDS, content.EDS} {
		if _, _, err := p.Request(k, scan(t, p.share.Interner, &discoveryv3.DiscoveryRequest{ResourceNames: []string{"a"}[:i]}), start); err != nil {
			t.Fatal(err)
		}
	}
	later := start.Add(time.Minute)
	if got := p.WaitsSince(); !got.Equal(start) {
		t.Errorf("waits since %s, want %s", got, start)
	}
	if _, _, err := p.Request(content.EDS, scan(t, p.share.Interner, &discoveryv3.DiscoveryRequest{ResponseNonce: p.types[content.EDS].nonce, ResourceNames: []string{"a"}}), later); err != nil {
		t.Fatal(err)
	}
	if got := p.WaitsSince(); !got.IsZero() {
		t.Errorf("after an ACK of EDS it waits since %s, want never", got)
	}
}

// A name may resolve to an address that a new listener serves: listeners are sent first.
func TestNamesFollowListeners(t *testing.T) {
	table := func(s *content.Snapshot, words string) *content.Snapshot {
		s[content.NDS] = made(content.NDS, words)
		return s
	}
	e := start(t, table(state("a=1", "a=1", "l=1", ""), "names=1"))
	if got := e.ask(content.NDS); got != "nds:names" {
		t.Errorf("asked for: %q", got)
	}
	e.ack(content.NDS)
	if got := e.push(table(state("a=1 b=1", "a=1", "l=b", ""), "names=2")); got != "cds:a,b" {
		t.Errorf("a listener that waits for its cluster: got %q, want the names to wait with it", got)
	}
	if got := e.later(Patience); got != "lds:l nds:names" {
		t.Errorf("the listener waits no longer: got %q", got)
	}
	e.nack(content.LDS, "bad")
	if got := e.push(table(state("a=1 b=1", "a=1", "l=b", ""), "names=3")); got != "" {
		t.Errorf("before the names are answered: %q", got)
	}
	if got := e.ack(content.NDS); got != "nds:names" {
		t.Errorf("a refused listener holds nothing up: got %q", got)
	}
}
