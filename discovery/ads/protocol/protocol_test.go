package protocol

import (
	"fmt"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

var base = state("a=1 b=1", "a=1 b=1", "l=1", "r=1")

func TestStartInEnvoysOrder(t *testing.T) {
	e := connect(t, base)
	e.want("CDS", e.ask(content.CDS), "cds:a,b")
	e.want("EDS", e.ask(content.EDS, "a", "b"), "eds:a,b")
	e.want("ACK of EDS", e.ack(content.EDS), "")
	e.want("ACK of CDS", e.ack(content.CDS), "")
	e.want("LDS", e.ask(content.LDS), "lds:l")
	e.want("RDS", e.ask(content.RDS, "r"), "rds:r")
	e.want("ACK of LDS", e.ack(content.LDS), "")
	e.want("ACK of RDS", e.ack(content.RDS), "")
	e.want("the same again", e.push(state("a=1 b=1", "a=1 b=1", "l=1", "r=1")), "")
}

func TestReconnectWithOldVersionIsAnswered(t *testing.T) {
	e := connect(t, base)
	e.want("CDS", e.raw(content.CDS, &discoveryv3.DiscoveryRequest{VersionInfo: "old", ResponseNonce: "77"}), "cds:a,b")
	e.want("EDS", e.raw(content.EDS, &discoveryv3.DiscoveryRequest{VersionInfo: "old", ResponseNonce: "78", ResourceNames: []string{"a"}}), "eds:a")
}

func TestReconnectWithSameVersionIsSilent(t *testing.T) {
	before := start(t, base)
	after := connect(t, state("a=1 b=1", "a=1 b=1", "l=1", "r=1")) // a restarted server, or another replica
	for _, k := range []content.Kind{content.CDS, content.EDS, content.LDS, content.RDS} {
		after.accepted[k] = before.accepted[k]
		after.want(k.TypeURL(), after.ask(k, before.names[k]...), "")
		if got := after.protocol.stateOf(k); got != StateSynced {
			t.Errorf("%s: state %s, want %s", k.TypeURL(), got, StateSynced)
		}
	}
	after.want("the next change", after.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1")), "eds:a")
}

// A name that was added while the stream was down has never been answered, with any version that Envoy names.
func TestReconnectWithNewNameIsAnswered(t *testing.T) {
	before := start(t, base)
	after := connect(t, base)
	after.accepted = before.accepted
	after.want("CDS", after.ask(content.CDS), "")
	after.want("EDS", after.ask(content.EDS, "a", "b", "c"), "eds:a,b,c")
}

// Clusters of unknown content were replaced, so Envoy warms them and waits for their endpoints.
func TestReconnectWithOldClustersPushesEndpoints(t *testing.T) {
	before := start(t, base)
	for _, order := range [][]content.Kind{{content.CDS, content.EDS}, {content.EDS, content.CDS}} {
		after := connect(t, state("a=2 b=1", "a=1 b=1", "l=1", "r=1"))
		after.accepted = before.accepted
		got := after.ask(order[0], before.names[order[0]]...) + " " + after.ask(order[1], before.names[order[1]]...)
		want := "cds:a,b eds:a,b"
		if order[0] == content.EDS {
			want = " " + want
		}
		after.want("CDS and EDS", got, want)
	}
}

func TestNackIsRecordedAndNotResent(t *testing.T) {
	e := start(t, base)
	e.want("change", e.push(state("a=1 b=1", "a=1 b=1", "l=bad", "r=1")), "lds:l")
	_, nack, _ := e.protocol.Request(content.LDS, scan(t, e.protocol.share.Interner, nackOf(e, content.LDS, "no filter chains specified")), now)
	if nack == nil || nack.Text != "no filter chains specified" || nack.Version != e.last[content.LDS].Version || nack.Time != now {
		t.Errorf("got refusal %+v", nack)
	}
	e.want("the same again", e.push(state("a=1 b=1", "a=1 b=1", "l=bad", "r=1")), "")
	e.want("a plain request under its nonce", e.ask(content.LDS), "")
	if got := e.protocol.stateOf(content.LDS); got != StateNacked {
		t.Errorf("state %s, want %s", got, StateNacked)
	}
	e.want("the next change", e.push(state("a=1 b=1", "a=1 b=1", "l=2", "r=1")), "lds:l")
	e.ack(content.LDS)
	if got := e.protocol.stateOf(content.LDS); got != StateSynced {
		t.Errorf("state %s, want %s", got, StateSynced)
	}
}

// nackOf returns a request that refuses the last response, with the version that is still in use.
func nackOf(e *envoy, k content.Kind, text string) *discoveryv3.DiscoveryRequest {
	r := &discoveryv3.DiscoveryRequest{ResponseNonce: e.last[k].Nonce, VersionInfo: e.accepted[k], ResourceNames: e.names[k]}
	r.ErrorDetail = refused(text)
	return r
}

// An ACK names the version that it accepts, a subscription change an older one: neither is a NACK.
func TestNackIsNeverAVersionComparison(t *testing.T) {
	e := start(t, base)
	e.push(state("a=1 b=1", "a=1 b=1", "l=2", "r=1"))
	e.want("an old version", e.send(content.LDS, &discoveryv3.DiscoveryRequest{}), "")
	if s := e.protocol.types[content.LDS]; s.nacked || s.nack != nil || s.acked != s.version {
		t.Errorf("taken for a NACK: %+v", s)
	}
}

func TestUnansweredResponseCoalesces(t *testing.T) {
	for _, test := range []struct {
		kind content.Kind
		make func(i int) *content.Snapshot
		want string
	}{
		{content.CDS, func(i int) *content.Snapshot { return state(fmt.Sprintf("a=%d b=1", i), "a=1 b=1", "l=1", "r=1") }, "cds:a,b"},
		{content.EDS, func(i int) *content.Snapshot { return state("a=1 b=1", fmt.Sprintf("a=%d b=1", i), "l=1", "r=1") }, "eds:a"},
		{content.LDS, func(i int) *content.Snapshot { return state("a=1 b=1", "a=1 b=1", fmt.Sprintf("l=%d", i), "r=1") }, "lds:l"},
		{content.RDS, func(i int) *content.Snapshot { return state("a=1 b=1", "a=1 b=1", "l=1", fmt.Sprintf("r=%d", i)) }, "rds:r"},
	} {
		e := start(t, base)
		e.push(test.make(2))
		for i := 3; i < 100; i++ {
			e.want("unanswered "+test.kind.TypeURL(), e.push(test.make(i)), "")
		}
		if got := e.protocol.stateOf(test.kind); got != StateStale {
			t.Errorf("%s: state %s, want %s", test.kind.TypeURL(), got, StateStale)
		}
		if test.kind == content.CDS {
			e.ack(content.EDS) // pushed with the clusters
			test.want += " eds:a"
		}
		e.want("the answer", e.ack(test.kind), test.want)
		if got, want := resourcesOf(e.last[test.kind])[0], test.make(99)[test.kind].Find("a"); want != nil && !content.Same(got, want) {
			t.Errorf("%s: sent something older than the newest", test.kind.TypeURL())
		}
		if test.kind == content.CDS {
			e.ack(content.EDS)
		}
		e.want("its answer", e.ack(test.kind), "")
	}
}

func TestUnknownNamesAreAnsweredAndRemembered(t *testing.T) {
	e := start(t, base)
	e.want("unknown endpoints", e.ask(content.EDS, "a", "b", "c"), "eds:c")
	if got := resourcesOf(e.last[content.EDS])[0]; got.Exists() {
		t.Errorf("want an assignment with a name and nothing else, got %s", got.Content)
	}
	e.ack(content.EDS)
	e.want("unknown routes", e.ask(content.RDS, "r", "s"), "rds:s")
	e.ack(content.RDS)
	e.want("they are created", e.push(state("a=1 b=1", "a=1 b=1 c=1", "l=1", "r=1 s=1")), "eds:c rds:s")
}

// Envoy would 503 in between if the route came before the cluster, or the cluster went before the route.
func TestMakeBeforeBreak(t *testing.T) {
	e := start(t, state("a=1", "a=1", "l=1", "r=a"))
	e.want("the route moves from a to b", e.push(state("b=1", "b=1", "l=1", "r=b")), "cds:a,b")
	e.want("endpoints of both", e.ask(content.EDS, "a", "b"), "eds:b")
	e.want("ACK of EDS", e.ack(content.EDS), "")
	e.want("ACK of CDS", e.ack(content.CDS), "rds:r")
	e.want("ACK of RDS", e.ack(content.RDS), "cds:b")
	e.want("fewer endpoints", e.ask(content.EDS, "b"), "")
	e.want("ACK of CDS", e.ack(content.CDS), "")
	if e.last[content.CDS].Version != made(content.CDS, "b=1").Version {
		t.Error("the version at the end is not that of the content")
	}
}

func TestRefusedRoutesKeepTheirClusters(t *testing.T) {
	e := start(t, state("a=1", "a=1", "l=1", "r=a"))
	e.push(state("b=1", "b=1", "l=1", "r=bad"))
	e.ask(content.EDS, "a", "b")
	e.ack(content.EDS)
	e.want("ACK of CDS", e.ack(content.CDS), "rds:r")
	e.want("NACK of RDS", e.nack(content.RDS, "bad"), "")
	e.want("mended", e.push(state("b=1", "b=1", "l=1", "r=b")), "rds:r")
	e.want("ACK of RDS", e.ack(content.RDS), "cds:b")
}

// Envoy may apply some listeners of a response that it refuses: these refer to c, until others are accepted.
func TestListenersTakenInPartKeepTheirClusters(t *testing.T) {
	e := start(t, base)
	e.want("c comes", e.push(state("a=1 b=1 c=1", "a=1 b=1", "l=c", "r=1")), "cds:a,b,c")
	e.want("ACK of CDS", e.ack(content.CDS), "lds:l")
	e.want("NACK", e.nack(content.LDS, "Error adding/updating listener(s) l: bad"), "")
	e.want("c goes again", e.push(state("a=1 b=1", "a=1 b=1", "l=3", "r=1")), "lds:l")
	e.want("another comes meanwhile", e.push(state("a=1 b=1 d=1", "a=1 b=1", "l=3", "r=1")), "cds:a,b,c,d")
	e.want("ACK of CDS", e.ack(content.CDS), "")
	e.want("ACK of LDS", e.ack(content.LDS), "cds:a,b,d")
}

func TestUnusedClustersGoAtOnce(t *testing.T) {
	e := start(t, base)
	e.want("b goes", e.push(state("a=1", "a=1", "l=1", "r=1")), "cds:a")
}

func TestRoutesWaitForEndpointsThatAreHeldBack(t *testing.T) {
	e := start(t, base)
	e.want("first", e.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1")), "eds:a")
	e.want("second", e.push(state("a=1 b=1", "a=2 b=2", "l=2", "r=2")), "")
	e.want("ACK of EDS", e.ack(content.EDS), "eds:b lds:l rds:r")
}

// Clusters change faster than they warm: at every ACK newer ones are waiting, and routes are still sent.
func TestEndlessClusterChangesDoNotStarveRoutes(t *testing.T) {
	e := start(t, base)
	e.want("first", e.push(state("a=2 b=1 c=1", "a=1 b=1", "l=1", "r=c")), "cds:a,b,c eds:a")
	e.want("second", e.push(state("a=3 b=1 c=1 d=1", "a=1 b=1", "l=1", "r=d")), "")
	e.want("third", e.push(state("a=4 b=1 c=1 d=1 e=1", "a=1 b=1", "l=1", "r=e")), "")
	e.ack(content.EDS)
	e.want("ACK of CDS", e.ack(content.CDS), "rds:r cds:a,b,c,d,e eds:a")
}

// In between Envoy sends only an EDS request that equals the last ACK.
func TestEndpointsFollowChangedClustersUnasked(t *testing.T) {
	e := start(t, base)
	lookalike := &discoveryv3.DiscoveryRequest{
		ResponseNonce: e.last[content.EDS].Nonce, VersionInfo: e.accepted[content.EDS], ResourceNames: e.names[content.EDS],
	}
	e.want("a changes", e.push(state("a=2 b=1", "a=1 b=1", "l=1", "r=1")), "cds:a,b eds:a")
	e.want("the request that looks like an ACK", e.raw(content.EDS, lookalike), "")
	e.want("ACK of EDS", e.ack(content.EDS), "")
	e.want("ACK of CDS", e.ack(content.CDS), "")
}

// Without an answer the cluster would warm for ever and its CDS response never be accepted.
func TestEndpointsOfClusterThatIsGoneAlready(t *testing.T) {
	e := start(t, base)
	e.want("c comes", e.push(state("a=1 b=1 c=1", "a=1 b=1 c=1", "l=1", "r=1")), "cds:a,b,c")
	e.want("and goes", e.push(base), "")
	e.want("Envoy asks", e.ask(content.EDS, "a", "b", "c"), "eds:c")
	e.ack(content.EDS)
	e.want("ACK of CDS", e.ack(content.CDS), "cds:a,b")
}

func TestAddedNamesAreAnsweredAndFewerAreNot(t *testing.T) {
	e := start(t, base)
	e.want("fewer", e.ask(content.EDS, "a"), "")
	e.want("more", e.ask(content.EDS, "b", "a"), "eds:b")
	e.ack(content.EDS)
	e.want("the same", e.ask(content.EDS, "a", "b", "b"), "")
	e.want("none", e.ask(content.EDS), "")
	e.want("a change of nothing subscribed", e.push(state("a=1 b=1", "a=2 b=2", "l=1", "r=1")), "")
}

func TestWildcard(t *testing.T) {
	e := connect(t, base)
	e.want("[]", e.ask(content.CDS), "cds:a,b")
	e.ack(content.CDS)
	e.want("[*, a]", e.ask(content.CDS, "*", "a"), "cds:a,b")
	e.ack(content.CDS)
	e.want("[a]", e.ask(content.CDS, "a"), "")
	e.want("[]", e.ask(content.CDS), "")
	e.want("nothing is subscribed", e.push(state("a=2 b=2", "", "", "")), "")
	e.want("[b]", e.ask(content.CDS, "b"), "cds:b")
	e.ack(content.CDS)
	e.want("only b", e.push(state("a=3 b=3", "", "", "")), "cds:b")
	e.ack(content.CDS)
	e.want("[*]", e.ask(content.CDS, "*"), "cds:a,b")
}

func TestNamedListenerThatDoesNotExist(t *testing.T) {
	e := connect(t, base)
	e.want("LDS", e.ask(content.LDS, "x"), "lds:")
	e.ack(content.LDS)
	e.want("it is created", e.push(state("", "", "x=1", "")), "lds:x")
	e.ack(content.LDS)
	e.want("and deleted", e.push(base), "lds:")
}

func TestStaleNonceIsIgnored(t *testing.T) {
	e := start(t, base)
	stale := e.last[content.EDS].Nonce
	e.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1"))
	e.want("stale", e.raw(content.EDS, &discoveryv3.DiscoveryRequest{ResponseNonce: stale, ResourceNames: []string{"a", "b", "c"}}), "")
	e.want("the answer brings the names", e.ask(content.EDS, "a", "b", "c"), "eds:c")
	e.ack(content.EDS)
	e.want("stale, while nothing waits", e.raw(content.EDS, &discoveryv3.DiscoveryRequest{ResponseNonce: stale, ResourceNames: []string{"a", "b", "c", "d"}}), "")
}

// A request that drops all names counts under any nonce, but under the nonce of an earlier response it is no answer to the
// last one: neither an ACK nor a NACK.
func TestNoNamesUnderStaleNonceIsNoAnswer(t *testing.T) {
	for name, refusal := range map[string]*statuspb.Status{"ACK": nil, "NACK": refused("bad")} {
		e := start(t, base)
		stale, acked := e.last[content.EDS].Nonce, e.protocol.Describe()[content.EDS].Acked
		e.want("a change", e.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1")), "eds:a")
		r := scan(t, e.protocol.share.Interner, &discoveryv3.DiscoveryRequest{ResponseNonce: stale, ErrorDetail: refusal})
		if _, nack, err := e.protocol.Request(content.EDS, r, e.clock); nack != nil || err != nil {
			t.Errorf("%s: counts as a NACK %v, error %v", name, nack, err)
		}
		if now := e.protocol.Describe()[content.EDS]; now.Acked != acked || now.Nack != nil || now.Subscribed != 0 {
			t.Errorf("%s: %+v, want no name, and an answer to the first response only", name, now)
		}
		if e.protocol.Waits(content.EDS) {
			t.Errorf("%s: waits for an answer that clients do not send", name)
		}
	}
}

func TestVersionIsOfTheContent(t *testing.T) {
	one, two := start(t, base), connect(t, state("a=1 b=1", "a=1 b=1", "l=1", "r=1"))
	two.ask(content.EDS, "b", "a")
	if one.accepted[content.EDS] != two.last[content.EDS].Version {
		t.Errorf("equal endpoints have versions %s and %s", one.accepted[content.EDS], two.last[content.EDS].Version)
	}
	if a, b := made(content.CDS, "a=1 b=2").Version, made(content.CDS, "a=2 b=1").Version; a == b {
		t.Errorf("different contents have one version %s", a)
	}
}
