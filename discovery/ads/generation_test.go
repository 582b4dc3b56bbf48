package ads

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// strangers opens a stream for each of n views that no other stream has.
func (r *rig) strangers(conn *grpc.ClientConn, n int) (last *client) {
	for i := range n {
		last = r.connectBy(conn, content.SotW)
		last.node.Metadata.Fields["NAMESPACE"] = structpb.NewStringValue(fmt.Sprint("namespace", i))
		last.node.Metadata.Fields["TLS_CLIENT_KEY"] = structpb.NewStringValue(fmt.Sprint("/key", i))
		last.subscribe(content.CDS)
	}
	return last
}

// views returns how many outbound views are held.
func (r *rig) views() int { return len(r.current.Load().Held()) }

// Resources made for views that one client invents are removed a while after its streams end, without a change of the
// mesh. Other clients receive nothing because of that, and lose nothing.
func TestViewsGoWithTheirStreams(t *testing.T) {
	for v := range content.Variants {
		t.Run(v.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { viewsGo(t, v) }) })
	}
}

func viewsGo(t *testing.T, v content.Variant) {
	limits := testLimits()
	limits.StreamsPerConnection = 100
	r := &rig{running: runWith(t, limits, nil), t: t}
	r.Push(adstest.Mesh(1, "a", "b"), model.Change{})
	stays := r.started(v, r.current.Load().Snapshot(content.Reader{View: adstest.View(r.t, "127.0.0.9")}))
	before := r.current.Load()
	hostile := r.dialPlain()
	r.strangers(hostile, 50)
	if got := r.views(); got != 51 {
		t.Fatalf("%d views, want 51", got)
	}
	<-time.After(3 * cleanUpInterval)
	synctest.Wait()
	if g := r.current.Load(); g != before {
		t.Error("views in use are tidied")
	}
	if err := hostile.Close(); err != nil {
		t.Fatal(err)
	}
	<-time.After(3 * cleanUpInterval)
	stays.want("of what others invented", stays.got(), "")
	g := r.current.Load()
	if got := r.views(); got != 1+1 || g.number != before.number || g.Work != before.Work {
		t.Errorf("%d views in generations %d, want the one that is used, in two of one number", got, g.number)
	}
	settled := r.current.Load()
	<-time.After(3 * cleanUpInterval)
	if r.current.Load() != settled {
		t.Error("it is tidied again and again")
	}
	r.Push(adstest.Mesh(2, "a", "b"), model.Change{})
	stays.want("a change after that", stays.got(), "eds:"+adstest.Cluster("a")+","+adstest.Cluster("b"))
}

// The number of views that one identity may have at once is limited, for each identity separately. A view that it has
// already does not count again.
func TestViewsOfAnIdentityAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := testLimits()
		limits.ViewsPerIdentity = 3
		r := &rig{running: runWith(t, limits, nil), t: t}
		r.Push(adstest.Mesh(1, "a"), model.Change{})
		one := r.dialPlain()
		if c := r.strangers(one, 3); c.ended != nil {
			t.Fatalf("the third view: %v", c.ended)
		}
		if c := r.strangers(one, 3); c.ended != nil {
			t.Fatalf("the third view again: %v", c.ended)
		}
		if c := r.strangers(one, 4); status.Code(c.ended) != codes.ResourceExhausted {
			t.Errorf("the fourth: %v, want ResourceExhausted", c.ended)
		}
		_ = one.Close()
		two := r.dialPlain()
		if c := r.strangers(two, 4); status.Code(c.ended) != codes.ResourceExhausted {
			t.Errorf("the fourth while the others are still held: %v, want ResourceExhausted", c.ended)
		}
		_ = two.Close()
		<-time.After(3 * cleanUpInterval)
		three := r.dialPlain()
		c := r.connectBy(three, content.SotW)
		c.node.Metadata.Fields["NAMESPACE"] = structpb.NewStringValue("another")
		if c.subscribe(content.CDS); c.ended != nil {
			t.Errorf("another, when they are gone: %v", c.ended)
		}
	})
}

func TestIdentitiesByName(t *testing.T) {
	for _, test := range []struct {
		id         identity
		peer, want string
	}{
		{identity{"td", "n", "a"}, "10.0.0.1:5", "spiffe://td/ns/n/sa/a"},
		{identity{}, "10.0.0.1:5", "10.0.0.1"},
		{identity{}, "[fd00::1]:5", "fd00::1"},
		{identity{}, "bufconn", "bufconn"},
	} {
		if got := test.id.owner(test.peer); got != test.want {
			t.Errorf("%+v from %s is %s, want %s", test.id, test.peer, got, test.want)
		}
	}
}
