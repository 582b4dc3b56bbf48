package ads

import (
	"fmt"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

var base = state("a=1 b=1", "a=1 b=1", "l=1", "r=1")

func TestStartInEnvoysOrder(t *testing.T) {
	e := connect(t, base)
	e.want("CDS", e.ask(cds), "cds:a,b")
	e.want("EDS", e.ask(eds, "a", "b"), "eds:a,b")
	e.want("ACK of EDS", e.ack(eds), "")
	e.want("ACK of CDS", e.ack(cds), "")
	e.want("LDS", e.ask(lds), "lds:l")
	e.want("RDS", e.ask(rds, "r"), "rds:r")
	e.want("ACK of LDS", e.ack(lds), "")
	e.want("ACK of RDS", e.ack(rds), "")
	e.want("the same again", e.push(state("a=1 b=1", "a=1 b=1", "l=1", "r=1")), "")
}

func TestReconnectWithOldVersionIsAnswered(t *testing.T) {
	e := connect(t, base)
	e.want("CDS", e.raw(cds, &discoveryv3.DiscoveryRequest{VersionInfo: "old", ResponseNonce: "77"}), "cds:a,b")
	e.want("EDS", e.raw(eds, &discoveryv3.DiscoveryRequest{VersionInfo: "old", ResponseNonce: "78", ResourceNames: []string{"a"}}), "eds:a")
}

func TestReconnectWithSameVersionIsSilent(t *testing.T) {
	before := start(t, base)
	after := connect(t, state("a=1 b=1", "a=1 b=1", "l=1", "r=1")) // a restarted server, or another replica
	for _, k := range []kind{cds, eds, lds, rds} {
		after.accepted[k] = before.accepted[k]
		after.want(k.typeURL(), after.ask(k, before.names[k]...), "")
		if got := after.protocol.stateOf(k); got != StateSynced {
			t.Errorf("%s: state %s, want %s", k.typeURL(), got, StateSynced)
		}
	}
	after.want("the next change", after.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1")), "eds:a")
}

// A name that was added while the stream was down has never been answered, with any version that Envoy names.
func TestReconnectWithNewNameIsAnswered(t *testing.T) {
	before := start(t, base)
	after := connect(t, base)
	after.accepted = before.accepted
	after.want("CDS", after.ask(cds), "")
	after.want("EDS", after.ask(eds, "a", "b", "c"), "eds:a,b,c")
}

// Clusters of unknown content were replaced, so Envoy warms them and waits for their endpoints.
func TestReconnectWithOldClustersPushesEndpoints(t *testing.T) {
	before := start(t, base)
	for _, order := range [][]kind{{cds, eds}, {eds, cds}} {
		after := connect(t, state("a=2 b=1", "a=1 b=1", "l=1", "r=1"))
		after.accepted = before.accepted
		got := after.ask(order[0], before.names[order[0]]...) + " " + after.ask(order[1], before.names[order[1]]...)
		want := "cds:a,b eds:a,b"
		if order[0] == eds {
			want = " " + want
		}
		after.want("CDS and EDS", got, want)
	}
}

func TestNackIsRecordedAndNotResent(t *testing.T) {
	e := start(t, base)
	e.want("change", e.push(state("a=1 b=1", "a=1 b=1", "l=bad", "r=1")), "lds:l")
	_, nack, _ := e.protocol.request(lds, scan(t, e.protocol.share.interner, nackOf(e, lds, "no filter chains specified")), now)
	if nack == nil || nack.Text != "no filter chains specified" || nack.Version != e.last[lds].version || nack.Time != now {
		t.Errorf("got refusal %+v", nack)
	}
	e.want("the same again", e.push(state("a=1 b=1", "a=1 b=1", "l=bad", "r=1")), "")
	e.want("a plain request under its nonce", e.ask(lds), "")
	if got := e.protocol.stateOf(lds); got != StateNacked {
		t.Errorf("state %s, want %s", got, StateNacked)
	}
	e.want("the next change", e.push(state("a=1 b=1", "a=1 b=1", "l=2", "r=1")), "lds:l")
	e.ack(lds)
	if got := e.protocol.stateOf(lds); got != StateSynced {
		t.Errorf("state %s, want %s", got, StateSynced)
	}
}

// nackOf returns a request that refuses the last response, with the version that is still in use.
func nackOf(e *envoy, k kind, text string) *discoveryv3.DiscoveryRequest {
	r := &discoveryv3.DiscoveryRequest{ResponseNonce: e.last[k].nonce, VersionInfo: e.accepted[k], ResourceNames: e.names[k]}
	r.ErrorDetail = refused(text)
	return r
}

// An ACK names the version that it accepts, a subscription change an older one: neither is a NACK.
func TestNackIsNeverAVersionComparison(t *testing.T) {
	e := start(t, base)
	e.push(state("a=1 b=1", "a=1 b=1", "l=2", "r=1"))
	e.want("an old version", e.send(lds, &discoveryv3.DiscoveryRequest{}), "")
	if s := e.protocol.types[lds]; s.nacked || s.nack != nil || s.acked != s.version {
		t.Errorf("taken for a NACK: %+v", s)
	}
}

func TestUnansweredResponseCoalesces(t *testing.T) {
	for _, test := range []struct {
		kind kind
		make func(i int) *snapshot
		want string
	}{
		{cds, func(i int) *snapshot { return state(fmt.Sprintf("a=%d b=1", i), "a=1 b=1", "l=1", "r=1") }, "cds:a,b"},
		{eds, func(i int) *snapshot { return state("a=1 b=1", fmt.Sprintf("a=%d b=1", i), "l=1", "r=1") }, "eds:a"},
		{lds, func(i int) *snapshot { return state("a=1 b=1", "a=1 b=1", fmt.Sprintf("l=%d", i), "r=1") }, "lds:l"},
		{rds, func(i int) *snapshot { return state("a=1 b=1", "a=1 b=1", "l=1", fmt.Sprintf("r=%d", i)) }, "rds:r"},
	} {
		e := start(t, base)
		e.push(test.make(2))
		for i := 3; i < 100; i++ {
			e.want("unanswered "+test.kind.typeURL(), e.push(test.make(i)), "")
		}
		if got := e.protocol.stateOf(test.kind); got != StateStale {
			t.Errorf("%s: state %s, want %s", test.kind.typeURL(), got, StateStale)
		}
		if test.kind == cds {
			e.ack(eds) // pushed with the clusters
			test.want += " eds:a"
		}
		e.want("the answer", e.ack(test.kind), test.want)
		if got, want := resourcesOf(e.last[test.kind])[0], test.make(99)[test.kind].find("a"); want != nil && !same(got, want) {
			t.Errorf("%s: sent something older than the newest", test.kind.typeURL())
		}
		if test.kind == cds {
			e.ack(eds)
		}
		e.want("its answer", e.ack(test.kind), "")
	}
}

func TestUnknownNamesAreAnsweredAndRemembered(t *testing.T) {
	e := start(t, base)
	e.want("unknown endpoints", e.ask(eds, "a", "b", "c"), "eds:c")
	if got := resourcesOf(e.last[eds])[0]; got.exists() {
		t.Errorf("want an assignment with a name and nothing else, got %s", got.content)
	}
	e.ack(eds)
	e.want("unknown routes", e.ask(rds, "r", "s"), "rds:s")
	e.ack(rds)
	e.want("they are created", e.push(state("a=1 b=1", "a=1 b=1 c=1", "l=1", "r=1 s=1")), "eds:c rds:s")
}

// Envoy would 503 in between if the route came before the cluster, or the cluster went before the route.
func TestMakeBeforeBreak(t *testing.T) {
	e := start(t, state("a=1", "a=1", "l=1", "r=a"))
	e.want("the route moves from a to b", e.push(state("b=1", "b=1", "l=1", "r=b")), "cds:a,b")
	e.want("endpoints of both", e.ask(eds, "a", "b"), "eds:b")
	e.want("ACK of EDS", e.ack(eds), "")
	e.want("ACK of CDS", e.ack(cds), "rds:r")
	e.want("ACK of RDS", e.ack(rds), "cds:b")
	e.want("fewer endpoints", e.ask(eds, "b"), "")
	e.want("ACK of CDS", e.ack(cds), "")
	if e.last[cds].version != content(cds, "b=1").version {
		t.Error("the version at the end is not that of the content")
	}
}

func TestRefusedRoutesKeepTheirClusters(t *testing.T) {
	e := start(t, state("a=1", "a=1", "l=1", "r=a"))
	e.push(state("b=1", "b=1", "l=1", "r=bad"))
	e.ask(eds, "a", "b")
	e.ack(eds)
	e.want("ACK of CDS", e.ack(cds), "rds:r")
	e.want("NACK of RDS", e.nack(rds, "bad"), "")
	e.want("mended", e.push(state("b=1", "b=1", "l=1", "r=b")), "rds:r")
	e.want("ACK of RDS", e.ack(rds), "cds:b")
}

// Envoy may apply some listeners of a response that it refuses: these refer to c, until others are accepted.
func TestListenersTakenInPartKeepTheirClusters(t *testing.T) {
	e := start(t, base)
	e.want("c comes", e.push(state("a=1 b=1 c=1", "a=1 b=1", "l=c", "r=1")), "cds:a,b,c")
	e.want("ACK of CDS", e.ack(cds), "lds:l")
	e.want("NACK", e.nack(lds, "Error adding/updating listener(s) l: bad"), "")
	e.want("c goes again", e.push(state("a=1 b=1", "a=1 b=1", "l=3", "r=1")), "lds:l")
	e.want("another comes meanwhile", e.push(state("a=1 b=1 d=1", "a=1 b=1", "l=3", "r=1")), "cds:a,b,c,d")
	e.want("ACK of CDS", e.ack(cds), "")
	e.want("ACK of LDS", e.ack(lds), "cds:a,b,d")
}

func TestUnusedClustersGoAtOnce(t *testing.T) {
	e := start(t, base)
	e.want("b goes", e.push(state("a=1", "a=1", "l=1", "r=1")), "cds:a")
}

func TestRoutesWaitForEndpointsThatAreHeldBack(t *testing.T) {
	e := start(t, base)
	e.want("first", e.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1")), "eds:a")
	e.want("second", e.push(state("a=1 b=1", "a=2 b=2", "l=2", "r=2")), "")
	e.want("ACK of EDS", e.ack(eds), "eds:b lds:l rds:r")
}

// Clusters change faster than they warm: at every ACK newer ones are waiting, and routes are still sent.
func TestEndlessClusterChangesDoNotStarveRoutes(t *testing.T) {
	e := start(t, base)
	e.want("first", e.push(state("a=2 b=1 c=1", "a=1 b=1", "l=1", "r=c")), "cds:a,b,c eds:a")
	e.want("second", e.push(state("a=3 b=1 c=1 d=1", "a=1 b=1", "l=1", "r=d")), "")
	e.want("third", e.push(state("a=4 b=1 c=1 d=1 e=1", "a=1 b=1", "l=1", "r=e")), "")
	e.ack(eds)
	e.want("ACK of CDS", e.ack(cds), "rds:r cds:a,b,c,d,e eds:a")
}

// In between Envoy sends only an EDS request that equals the last ACK.
func TestEndpointsFollowChangedClustersUnasked(t *testing.T) {
	e := start(t, base)
	lookalike := &discoveryv3.DiscoveryRequest{
		ResponseNonce: e.last[eds].nonce, VersionInfo: e.accepted[eds], ResourceNames: e.names[eds],
	}
	e.want("a changes", e.push(state("a=2 b=1", "a=1 b=1", "l=1", "r=1")), "cds:a,b eds:a")
	e.want("the request that looks like an ACK", e.raw(eds, lookalike), "")
	e.want("ACK of EDS", e.ack(eds), "")
	e.want("ACK of CDS", e.ack(cds), "")
}

// Without an answer the cluster would warm for ever and its CDS response never be accepted.
func TestEndpointsOfClusterThatIsGoneAlready(t *testing.T) {
	e := start(t, base)
	e.want("c comes", e.push(state("a=1 b=1 c=1", "a=1 b=1 c=1", "l=1", "r=1")), "cds:a,b,c")
	e.want("and goes", e.push(base), "")
	e.want("Envoy asks", e.ask(eds, "a", "b", "c"), "eds:c")
	e.ack(eds)
	e.want("ACK of CDS", e.ack(cds), "cds:a,b")
}

func TestAddedNamesAreAnsweredAndFewerAreNot(t *testing.T) {
	e := start(t, base)
	e.want("fewer", e.ask(eds, "a"), "")
	e.want("more", e.ask(eds, "b", "a"), "eds:b")
	e.ack(eds)
	e.want("the same", e.ask(eds, "a", "b", "b"), "")
	e.want("none", e.ask(eds), "")
	e.want("a change of nothing subscribed", e.push(state("a=1 b=1", "a=2 b=2", "l=1", "r=1")), "")
}

func TestWildcard(t *testing.T) {
	e := connect(t, base)
	e.want("[]", e.ask(cds), "cds:a,b")
	e.ack(cds)
	e.want("[*, a]", e.ask(cds, "*", "a"), "cds:a,b")
	e.ack(cds)
	e.want("[a]", e.ask(cds, "a"), "")
	e.want("[]", e.ask(cds), "")
	e.want("nothing is subscribed", e.push(state("a=2 b=2", "", "", "")), "")
	e.want("[b]", e.ask(cds, "b"), "cds:b")
	e.ack(cds)
	e.want("only b", e.push(state("a=3 b=3", "", "", "")), "cds:b")
	e.ack(cds)
	e.want("[*]", e.ask(cds, "*"), "cds:a,b")
}

func TestNamedListenerThatDoesNotExist(t *testing.T) {
	e := connect(t, base)
	e.want("LDS", e.ask(lds, "x"), "lds:")
	e.ack(lds)
	e.want("it is created", e.push(state("", "", "x=1", "")), "lds:x")
	e.ack(lds)
	e.want("and deleted", e.push(base), "lds:")
}

func TestStaleNonceIsIgnored(t *testing.T) {
	e := start(t, base)
	stale := e.last[eds].nonce
	e.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1"))
	e.want("stale", e.raw(eds, &discoveryv3.DiscoveryRequest{ResponseNonce: stale, ResourceNames: []string{"a", "b", "c"}}), "")
	e.want("the answer brings the names", e.ask(eds, "a", "b", "c"), "eds:c")
	e.ack(eds)
	e.want("stale, while nothing waits", e.raw(eds, &discoveryv3.DiscoveryRequest{ResponseNonce: stale, ResourceNames: []string{"a", "b", "c", "d"}}), "")
}

func TestVersionIsOfTheContent(t *testing.T) {
	one, two := start(t, base), connect(t, state("a=1 b=1", "a=1 b=1", "l=1", "r=1"))
	two.ask(eds, "b", "a")
	if one.accepted[eds] != two.last[eds].version {
		t.Errorf("equal endpoints have versions %s and %s", one.accepted[eds], two.last[eds].version)
	}
	if a, b := content(cds, "a=1 b=2").version, content(cds, "a=2 b=1").version; a == b {
		t.Errorf("different contents have one version %s", a)
	}
}
