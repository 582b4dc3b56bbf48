package ads

import (
	"fmt"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// The rules that an ADS server keeps, over real gRPC, in the order of the protocol's documentation: both variants, then
// the state of the world, then delta.

// Only a stream's first request must have the node; a first request without node.id is InvalidArgument.
func TestRule01NodeIsOfTheFirstRequest(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.connect(v)
		c.want("with a node", c.subscribe(content.CDS), "cds:a,b")
		c.want("without one", c.subscribe(content.LDS), "")
		c.want("ACK without one", c.ack(content.CDS), "lds:l")
		c = r.connect(v)
		c.node = nil
		c.subscribe(content.CDS)
		if status.Code(c.ended) != codes.InvalidArgument || !strings.Contains(c.ended.Error(), "node.id") {
			t.Errorf("a first request without a node: got %v, want InvalidArgument", c.ended)
		}
	})
}

// State belongs to the stream: in a hot restart two of one node have different subscriptions.
func TestRule02StateIsOfTheStream(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		old, young := r.connect(v), r.connect(v)
		old.want("the old one's", old.subscribe(content.EDS, "a"), "eds:a")
		young.want("the new one's", young.subscribe(content.EDS, "a", "b"), "eds:a,b")
		old.ack(content.EDS)
		young.ack(content.EDS)
		r.push(state("a=1 b=1", "a=2 b=2", "l=1", "r=1"))
		old.want("a change for the old one", old.got(), "eds:a")
		young.want("a change for the new one", young.got(), "eds:a,b")
	})
}

// Nonces are per stream and kind; a request after a reconnect may carry an old version or nonce and is answered.
func TestRule03OldNonceOfAnotherStreamIsAnswered(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.connect(v)
		for k := range content.Kinds {
			c.nonce[k], c.accepted[k] = "77", "old"
		}
		if v == content.Delta {
			c.want("CDS", c.request(content.CDS, &discoveryv3.DeltaDiscoveryRequest{ResponseNonce: "77"}), "cds:a,b")
		} else {
			c.want("CDS", c.ask(content.CDS), "cds:a,b")
		}
		first := c.nonce[content.CDS]
		c.want("EDS", c.subscribe(content.EDS, "a"), "eds:a")
		if c.nonce[content.EDS] == first {
			t.Errorf("CDS and EDS share the nonce %s", first)
		}
	})
}

// A NACK is error_detail present. The same content is not sent again, the next change is; it is recorded.
func TestRule04NackIsRecordedAndNotResent(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.started(v, base)
		r.push(state("a=1 b=1", "a=1 b=1", "l=bad", "r=1"))
		c.want("the change", c.got(), "lds:l")
		c.want("NACK", c.nack(content.LDS, "no filter chains specified"), "")
		got := r.Clients()[0].Types[content.LDS]
		if got.State != protocol.StateNacked || got.Nack == nil || got.Nack.Text != "no filter chains specified" {
			t.Errorf("status page: %+v, NACK %+v", got, got.Nack)
		}
		if log := r.log.String(); strings.Count(log, "response refused") != 1 || !strings.Contains(log, adstest.NodeID) {
			t.Errorf("want it logged once, with node, type and text:\n%s", log)
		}
		r.push(state("a=1 b=1", "a=1 b=1", "l=bad", "r=1"))
		c.want("the same content again", c.got(), "")
		r.push(state("a=1 b=1", "a=1 b=1", "l=2", "r=1"))
		c.want("the next change", c.got(), "lds:l")
		if v == content.SotW {
			c.want("a request with an old version is no NACK", c.ask(content.LDS), "")
			if got := r.Clients()[0].Types[content.LDS].State; got != protocol.StateSynced {
				t.Errorf("state %s, want %s", got, protocol.StateSynced)
			}
		}
	})
}

// An ACK gets no response. While a response has no answer changes coalesce; the newest state is sent once.
func TestRule05AckIsSilentAndChangesCoalesce(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.started(v, base)
		for i := range 50 {
			r.push(state("a=1 b=1", fmt.Sprintf("a=%d b=1", i+2), "l=1", "r=1"))
		}
		c.want("fifty changes without an answer", c.got(), "eds:a")
		c.want("the answer", c.ack(content.EDS), "eds:a")
		if newest := made(content.EDS, "a=51").Find("a").Version; v == content.Delta && c.versions[content.EDS]["a"] != newest {
			t.Errorf("got version %s, want the newest, %s", c.versions[content.EDS]["a"], newest)
		}
		c.want("its answer", c.ack(content.EDS), "")
	})
}

// A subscribed name that does not exist yet is sent when it is created.
func TestRule06UnknownNamesAreRemembered(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.started(v, base)
		c.subscribe(content.EDS, "a", "b", "c")
		c.ack(content.EDS)
		c.subscribe(content.RDS, "r", "s")
		c.ack(content.RDS)
		r.push(state("a=1 b=1 c=1", "a=1 b=1 c=1", "l=1", "r=1 s=c"))
		c.want("CDS and EDS", c.got(), map[content.Variant]string{content.SotW: "cds:a,b,c eds:c", content.Delta: "cds:c eds:c"}[v])
		c.ack(content.EDS)
		c.want("then RDS", c.ack(content.CDS), "rds:s")
	})
}

// CDS → EDS → LDS → RDS, removals last: a route moves from cluster a to b, and a is removed.
func TestRule07MakeBeforeBreak(t *testing.T) {
	both(t, state("a=1", "a=1", "l=1", "r=a"), func(r *rig, v content.Variant) {
		c := r.started(v, state("a=1", "a=1", "l=1", "r=a"))
		r.push(state("b=1", "b=1", "l=1", "r=b"))
		c.want("first both clusters", c.got(), map[content.Variant]string{content.SotW: "cds:a,b", content.Delta: "cds:b"}[v])
		if v == content.SotW {
			c.want("endpoints of both", c.ask(content.EDS, "a", "b"), "eds:b")
		} else {
			c.want("endpoints of the new one", c.sub(content.EDS, "b"), "eds:b")
		}
		c.want("ACK of EDS", c.ack(content.EDS), "")
		c.want("ACK of CDS brings the route", c.ack(content.CDS), "rds:r")
		c.want("ACK of RDS lets the old one go", c.ack(content.RDS), map[content.Variant]string{content.SotW: "cds:b", content.Delta: "cds:-a"}[v])
	})
}

// A changed cluster gets its endpoints right after it, without a request, although they did not change. A service
// without endpoints gets an empty assignment, an unknown route an empty configuration.
func TestRule08EndpointsFollowChangedClusters(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.started(v, base)
		r.push(state("a=2 b=1", "a=1 b=1", "l=1", "r=1"))
		c.want("a changes", c.got(), map[content.Variant]string{content.SotW: "cds:a,b eds:a", content.Delta: "cds:a eds:a"}[v])
		if v == content.SotW {
			answered := c.nonce[content.EDS]
			c.nonce[content.EDS] = "2" // Envoy only sends a request that equals its last ACK
			c.want("a request that looks like an ACK", c.ask(content.EDS, "a", "b"), "")
			c.nonce[content.EDS] = answered
		}
		c.want("ACK of EDS", c.ack(content.EDS), "")
		c.want("ACK of CDS", c.ack(content.CDS), "")
		c.names[content.RDS] = []string{"r", "unknown"}
		c.want("a route that is not known", c.subscribe(content.RDS, "r", "unknown"), map[content.Variant]string{content.SotW: "rds:unknown", content.Delta: "rds:-unknown,r"}[v])
	})
}

// Until every source has synced a stream is Unavailable: an empty answer would delete the configuration of a proxy.
func TestRule09UnavailableUntilSynced(t *testing.T) {
	both(t, nil, func(r *rig, v content.Variant) {
		c := r.connect(v)
		c.want("nothing", c.got(), "")
		if status.Code(c.ended) != codes.Unavailable {
			t.Errorf("got %v, want Unavailable", c.ended)
		}
	})
}

// ADS without type_url is InvalidArgument; a type that is not served does not kill the stream.
func TestRule10TypeURL(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.connect(v)
		if v == content.Delta {
			c.want("a type that is not served", c.send(&discoveryv3.DeltaDiscoveryRequest{Node: adstest.Node(), TypeUrl: "x.Secret"}), "")
		} else {
			c.want("a type that is not served", c.send(&discoveryv3.DiscoveryRequest{Node: adstest.Node(), TypeUrl: "x.Secret"}), "")
		}
		c.want("the stream lives", c.subscribe(content.CDS), "cds:a,b")
		if v == content.Delta {
			c.send(&discoveryv3.DeltaDiscoveryRequest{})
		} else {
			c.send(&discoveryv3.DiscoveryRequest{})
		}
		if status.Code(c.ended) != codes.InvalidArgument || !strings.Contains(c.ended.Error(), "type_url") {
			t.Errorf("got %v, want InvalidArgument", c.ended)
		}
	})
}

// CDS and LDS carry the full set, EDS and RDS the changed resources; deletion follows the parent.
func TestRule11FullSetsAndPartialOnes(t *testing.T) {
	overWire(t, base, func(r *rig) {
		c := r.started(content.SotW, base)
		r.push(state("a=1", "a=2", "l=1 m=1", "r=1"))
		c.want("b goes, m comes", c.got(), "eds:a lds:l,m")
		c.want("ACK of EDS", c.ack(content.EDS), "")
		c.want("all clusters, when nothing leads to b", c.ack(content.LDS), "cds:a")
	})
}

// Added names are answered at an unchanged version, a shrunk list is not; after [], [*, A], [A], [] nothing is
// subscribed.
func TestRule12SubscriptionsGrowAndShrink(t *testing.T) {
	overWire(t, base, func(r *rig) {
		c := r.started(content.SotW, base)
		c.want("fewer", c.ask(content.EDS, "a"), "")
		c.want("more", c.ask(content.EDS, "b", "a"), "eds:b")
		c.want("ACK", c.ack(content.EDS), "")
		c.want("[*, a]", c.ask(content.CDS, "*", "a"), "cds:a,b")
		c.ack(content.CDS)
		c.want("[a]", c.ask(content.CDS, "a"), "")
		c.want("[]", c.ask(content.CDS), "")
		r.push(state("a=2 b=2", "a=1 b=1", "l=1", "r=1"))
		c.want("nothing is subscribed", c.got(), "")
	})
}

// A request with a stale nonce is ignored.
func TestRule13StaleNonceIsIgnored(t *testing.T) {
	overWire(t, base, func(r *rig) {
		c := r.started(content.SotW, base)
		stale := c.nonce[content.EDS]
		r.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1"))
		c.want("a change", c.got(), "eds:a")
		fresh := c.nonce[content.EDS]
		c.nonce[content.EDS] = stale
		c.want("stale, with a new name", c.ask(content.EDS, "a", "b", "c"), "")
		c.nonce[content.EDS] = fresh
		c.want("the answer, with it", c.ask(content.EDS, "a", "b", "c"), "eds:c")
		c.want("its answer", c.ack(content.EDS), "")
		fresh = c.nonce[content.EDS]
		c.nonce[content.EDS] = stale
		c.want("stale, with a new name, while nothing waits for an answer", c.ask(content.EDS, "a", "b", "c", "d"), "")
		c.nonce[content.EDS] = fresh
		r.push(state("a=1 b=1", "a=2 b=1 c=1 d=1", "l=1", "r=1"))
		c.want("the name is not subscribed", c.got(), "eds:c")
	})
}

// The version depends on the content only: a restarted server and another replica have the same one, and an Envoy that
// names it is sent nothing.
func TestRule14VersionIsOfTheContent(t *testing.T) {
	var before *client
	overWire(t, base, func(r *rig) { before = r.started(content.SotW, base) })
	overWire(t, state("a=1 b=1", "a=1 b=1", "l=1", "r=1"), func(r *rig) {
		c := r.connect(content.SotW)
		c.accepted = before.accepted
		for _, k := range []content.Kind{content.CDS, content.EDS, content.LDS, content.RDS} {
			c.want(k.String(), c.ask(k, before.names[k]...), "")
			if got := r.Clients()[0].Types[k].State; got != protocol.StateSynced {
				t.Errorf("%s: state %s, want %s", k, got, protocol.StateSynced)
			}
		}
		r.push(state("a=1 b=1", "a=2 b=1", "l=1", "r=1"))
		c.want("the next change", c.got(), "eds:a")
		if c.version[content.EDS] == before.version[content.EDS] {
			t.Errorf("the version %s did not change with the content", c.version[content.EDS])
		}
	})
}

// Subscriptions take effect with any nonce.
func TestRule15SubscriptionUnderStaleNonce(t *testing.T) {
	overWire(t, base, func(r *rig) {
		c := r.started(content.Delta, base)
		r.push(state("a=1 b=1", "a=2 b=1 c=1", "l=1", "r=1"))
		c.want("a change", c.got(), "eds:a")
		c.want("stale nonce, new name", c.request(content.EDS, &discoveryv3.DeltaDiscoveryRequest{
			ResponseNonce: "0", ResourceNamesSubscribe: []string{"c"},
		}), "")
		c.want("the answer", c.ack(content.EDS), "eds:c")
	})
}

// A name that is subscribed again is answered again.
func TestRule16ResubscribedNameIsAnswered(t *testing.T) {
	overWire(t, base, func(r *rig) {
		c := r.started(content.Delta, base)
		c.want("a known name", c.sub(content.EDS, "a"), "eds:a")
		c.ack(content.EDS)
		c.want("a known name beside everything", c.sub(content.CDS, "a"), "cds:a")
		c.ack(content.CDS)
		c.want("everything", c.sub(content.CDS, "*"), "cds:a,b eds:a,b")
	})
}

// A missing name is listed in removed_resources.
func TestRule17MissingNameIsRemoved(t *testing.T) {
	overWire(t, base, func(r *rig) {
		c := r.connect(content.Delta)
		c.want("clusters", c.sub(content.CDS, "a", "x"), "cds:-x,a")
		c.want("endpoints", c.sub(content.EDS, "a", "x"), "eds:-x,a")
		c.ack(content.EDS)
		c.ack(content.CDS)
		c.want("listeners", c.sub(content.LDS, "x"), "lds:-x")
		c.ack(content.LDS)
		r.push(state("b=1", "b=1", "x=1", "r=1"))
		c.want("x comes", c.got(), "lds:x")
		c.want("a goes", c.ack(content.LDS), "cds:-a")
	})
}

// Unsubscribing a name under a wildcard is answered with the resource or its removal; a name that was never subscribed
// is ignored.
func TestRule18UnsubscribeUnderWildcard(t *testing.T) {
	overWire(t, base, func(r *rig) {
		c := r.connect(content.Delta)
		c.want("everything", c.sub(content.CDS, "*", "a", "x"), "cds:a,b")
		c.ack(content.CDS)
		c.want("a is there", c.sub(content.CDS, "-a"), "cds:a")
		c.ack(content.CDS)
		c.want("x is not", c.sub(content.CDS, "-x"), "cds:-x")
		c.ack(content.CDS)
		c.want("never subscribed", c.sub(content.CDS, "-b"), "")
		c.want("no more wildcard", c.sub(content.CDS, "-*"), "")
		r.push(state("a=2 b=2", "", "", ""))
		c.want("nothing is subscribed", c.got(), "")
	})
}

// initial_resource_versions: equal versions are skipped, resources that no longer exist are reported as removed; a
// first wildcard is answered even if nothing has changed. A reconnect with one wrong and one extinct version.
func TestRule19InitialVersions(t *testing.T) {
	overWire(t, base, func(r *rig) {
		before := r.started(content.Delta, base)
		c := r.connect(content.Delta)
		c.want("a wrong, x extinct", c.resume(content.CDS, map[string]string{
			"a": "wrong", "b": before.versions[content.CDS]["b"], "x": "1",
		}), "cds:-x,a")
		c.want("EDS: b equal, x extinct", c.resume(content.EDS, map[string]string{"b": before.versions[content.EDS]["b"], "x": "1"}, "b", "x"), "eds:-x")
		c.ack(content.EDS)
		c.ack(content.CDS)
		c.want("LDS, all equal", c.resume(content.LDS, before.versions[content.LDS]), "lds:")
		c.ack(content.LDS)
		c.want("RDS, all equal", c.resume(content.RDS, before.versions[content.RDS], "r"), "")
		r.push(state("a=1 b=1", "a=1 b=2", "l=1", "r=1"))
		c.want("the next change", c.got(), "eds:b")
	})
	overWire(t, state("", "", "", ""), func(r *rig) {
		c := r.connect(content.Delta)
		c.want("nothing at all", c.sub(content.CDS), "cds:")
	})
}

// After a reconnect the EDS request may come before the CDS request: endpoints of changed clusters are still sent after
// the clusters, although they are equal.
func TestRule20EndpointsAskedBeforeClusters(t *testing.T) {
	overWire(t, base, func(r *rig) {
		before := r.started(content.Delta, base)
		for _, order := range [][]content.Kind{{content.EDS, content.CDS}, {content.CDS, content.EDS}} {
			c := r.connect(content.Delta)
			had := map[string]string{"a": "older", "b": before.versions[content.CDS]["b"]}
			var got []string
			for _, k := range order {
				if k == content.EDS {
					got = append(got, c.resume(content.EDS, before.versions[content.EDS], "a", "b"))
				} else {
					got = append(got, c.resume(content.CDS, had))
				}
			}
			c.want(fmt.Sprint(order), strings.TrimSpace(strings.Join(got, " ")), "cds:a eds:a")
		}
	})
}

// One request per cluster: the answers are batched.
func TestRule21RequestsOneByOneAreBatched(t *testing.T) {
	var words, names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("c%02d", i))
		words = append(words, names[i]+"=1")
	}
	overWire(t, state("", strings.Join(words, " "), "", ""), func(r *rig) {
		c := r.connect(content.Delta)
		var got []string
		for _, name := range names {
			got = append(got, c.sub(content.EDS, name))
		}
		c.want("a hundred requests", strings.TrimSpace(strings.Join(got, "")), "eds:c00")
		c.want("the ACK of the first", c.ack(content.EDS), "eds:"+strings.Join(names[1:], ","))
		c.want("the ACK of the rest", c.ack(content.EDS), "")
	})
}

// RDS and LDS are real deltas too: only changed resources are sent.
func TestRule22RoutesAndListenersAreDeltas(t *testing.T) {
	first := state("a=1", "a=1", "l=1 m=1", "r=1 s=1")
	overWire(t, first, func(r *rig) {
		c := r.started(content.Delta, first)
		r.push(state("a=1", "a=1", "l=1 m=1", "r=1 s=2"))
		c.want("one route changes", c.got(), "rds:s")
		c.ack(content.RDS)
		r.push(state("a=1", "a=1", "l=1 m=1 n=1", "r=1 s=2"))
		c.want("one listener comes", c.got(), "lds:n")
		c.ack(content.LDS)
		r.push(state("a=1", "a=1", "l=1 n=1", "r=1 s=2"))
		c.want("one listener goes", c.got(), "lds:-m")
	})
}

// An empty list of names ends a subscription with any nonce: clients of gRPC for Java drop their nonce with it, and
// never answer the response that crosses it. A service that is removed and added again is sent again at once.
func TestRule23NothingIsSubscribedUnderStaleNonce(t *testing.T) {
	for name, crossing := range map[string]bool{"a response crosses it": true, "the nonce is the last one": false} {
		t.Run(name, func(t *testing.T) {
			overWire(t, base, func(r *rig) {
				c := r.connect(content.SotW)
				for _, k := range []content.Kind{content.CDS, content.EDS} {
					c.want(k.String(), c.ask(k, "a"), k.String()+":a")
					c.ack(k)
				}
				stale := c.nonce
				if crossing {
					r.push(state("a=2 b=1", "a=2 b=1", "l=1", "r=1"))
					c.want("a change", c.got(), "cds:a eds:a")
				}
				for _, k := range []content.Kind{content.CDS, content.EDS} {
					c.nonce[k] = stale[k]
					c.want("nothing", c.ask(k), "")
					c.nonce[k] = "" // forgotten
				}
				r.push(state("a=3 b=1", "a=3 b=1", "l=1", "r=1"))
				c.want("a change of what is not subscribed", c.got(), "")
				for _, k := range []content.Kind{content.CDS, content.EDS} {
					c.accepted[k] = ""
					c.want("it is added again", c.ask(k, "a"), k.String()+":a")
					c.want("ACK", c.ack(k), "")
				}
				r.push(state("a=4 b=1", "a=4 b=1", "l=1", "r=1"))
				c.want("the next change", c.got(), "cds:a eds:a")
			})
		})
	}
}

// An empty name is refused.
func TestRule24EmptyName(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.connect(v)
		c.subscribe(content.CDS)
		c.subscribe(content.EDS, "a", "")
		if status.Code(c.ended) != codes.InvalidArgument || !strings.Contains(c.ended.Error(), "name is empty") {
			t.Errorf("got %v, want InvalidArgument", c.ended)
		}
	})
}

// In the delta variant a route configuration that does not exist, or no longer exists, is a removal.
func TestRule25RoutesAreRemoved(t *testing.T) {
	first := state("a=1", "a=1", "l=1", "r=1 s=1")
	overWire(t, first, func(r *rig) {
		c := r.started(content.Delta, first)
		c.want("missing", c.sub(content.RDS, "x"), "rds:-x")
		c.ack(content.RDS)
		r.push(state("a=1", "a=1", "l=2", "r=1"))
		c.want("removed", c.got(), "lds:l rds:-s")
	})
}

// A listener stays refused while everything else changes: the refused content is never sent again, no other resource
// waits for it, the clusters of the accepted listener stay, and clusters that were added and removed meanwhile do not
// accumulate.
func TestRule26NackWithChurn(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.started(v, base)
		r.push(state("a=1 b=1", "a=1 b=1", "l=bad", "r=1"))
		c.want("the change", c.got(), "lds:l")
		c.want("NACK", c.nack(content.LDS, "no filter chains specified"), "")
		for i := range 20 {
			r.push(state(fmt.Sprintf("b=1 c%d=1", i), fmt.Sprintf("b=%d", i+2), "l=bad", fmt.Sprintf("r=%d", i+2)))
			var got string
			for wait := c.got(); wait != ""; { // it answers all responses
				got += wait + " "
				var more string
				for _, k := range []content.Kind{content.CDS, content.EDS, content.RDS} {
					if strings.Contains(wait, k.String()+":") {
						more += c.ack(k) + " "
					}
				}
				wait = strings.TrimSpace(more)
			}
			if strings.Contains(got, "lds:") || !strings.Contains(got, "cds:") || !strings.Contains(got, "eds:b") || !strings.Contains(got, "rds:r") {
				t.Fatalf("change %d: got %q, want clusters, endpoints and routes, and no listener", i, got)
			}
			if n := strings.Count(got, ":"); n > 5 {
				t.Fatalf("change %d: %d responses: %q", i, n, got)
			}
		}
		for st := range r.proxies {
			if sent := st.session.Sent()[content.CDS]; sent.Size() != 3 || sent.Find("a") == nil || sent.Find("c19") == nil {
				t.Errorf("%d clusters, want a, to which the accepted listener may lead, b and c19", sent.Size())
			}
			if accepted := st.session.Describe()[content.LDS].Acked; accepted != base[content.LDS].Version {
				t.Error("the accepted listener is not the one before the refused one")
			}
		}
		r.push(state("b=1 c19=1", "b=21", "l=2", "r=21"))
		c.want("it is mended", c.got(), "lds:l")
		c.want("ACK", c.ack(content.LDS), map[content.Variant]string{content.SotW: "cds:b,c19", content.Delta: "cds:-a"}[v])
	})
}

// A cluster that never gets warm, so that its response never has an answer: its route waits for a second, and later
// clusters are sent as well, once for each request from Envoy, so that few responses are buffered for an Envoy that
// does not read.
func TestRule27WarmingIsBounded(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		c := r.started(v, base)
		r.push(state("a=1 b=1 c=1", "a=1 b=1 c=1", "l=1", "r=c"))
		c.want("c comes, and never gets warm", c.got(), map[content.Variant]string{content.SotW: "cds:a,b,c", content.Delta: "cds:c"}[v])
		pass(protocol.Patience)
		c.want("its route", c.got(), "rds:r")
		c.want("ACK of it", c.ack(content.RDS), "")
		r.push(state("a=1 b=1 c=1 d=1", "a=1 b=2 c=1 d=1", "l=1", "r=d"))
		c.want("the next cluster, and endpoints", c.got(), map[content.Variant]string{content.SotW: "cds:a,b,c,d eds:b", content.Delta: "cds:d eds:b"}[v])
		r.push(state("a=1 b=1 c=1 d=1 e=1", "a=1 b=2 c=1 d=1", "l=1", "r=d"))
		pass(protocol.Patience)
		c.want("the next route, and no third cluster without a word", c.got(), "rds:r")
		c.want("a word", c.ack(content.EDS), map[content.Variant]string{content.SotW: "cds:a,b,c,d,e", content.Delta: "cds:e"}[v])
		c.ack(content.RDS)
		if got := r.Clients()[0].Types[content.CDS].State; got != protocol.StateStale {
			t.Errorf("clusters are %s, want %s", got, protocol.StateStale)
		}
		c.want("all are warm", c.ack(content.CDS), "")
	})
}
