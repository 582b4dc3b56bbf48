package ads

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// town is a mesh with services, and Pods of the namespace default, as discovery keeps it.
type town struct {
	r      *rig
	groups map[string]model.Group
	mesh   *model.Mesh
}

// newTown has two services with an endpoint in each of two zones: near.com prefers the proxy's zone, any.com does not.
func newTown(r *rig, prefer model.Prefer) *town {
	in := &town{r: r, groups: map[string]model.Group{}}
	for name, preference := range map[string]model.Prefer{"near": prefer, "any": model.PreferNone} {
		s := *adstest.Mesh(1, name).Services()[0]
		s.Prefer = preference
		s.Endpoints = []model.Endpoint{
			{Address: "10.0.0.1", Locality: model.ParseLocality("r/z1")}, {Address: "10.0.0.2", Locality: model.ParseLocality("r/z2")},
		}
		in.groups[name] = model.Group{Services: []*model.Service{&s}}
	}
	in.mesh = model.New(in.all)
	r.Push(in.mesh, model.Change{})
	return in
}

func (in *town) all(yield func(model.Group) bool) {
	for _, key := range slices.Sorted(maps.Keys(in.groups)) {
		if !yield(in.groups[key]) {
			return
		}
	}
}

// pods sets Pods, "NAME ADDRESS LOCALITY" each, or removes one, "NAME", and pushes them as one change.
func (in *town) pods(texts ...string) {
	in.r.t.Helper()
	var changes []model.WorkloadChange
	for _, text := range texts {
		parts := strings.Fields(text)
		now := model.Group{}
		if len(parts) > 1 {
			now.Workloads = []*model.Workload{{
				Registry: "Kubernetes", Namespace: "default", Name: parts[0], Addresses: parts[1:2], ServiceAccount: "app",
				Locality: model.ParseLocality(strings.Join(parts[2:], "")),
			}}
		}
		changes = append(changes, model.WorkloadChanges(in.groups[parts[0]], now)...)
		in.groups[parts[0]] = now
	}
	next, ok := in.mesh.With(nil, nil, changes...)
	if !ok {
		in.r.t.Fatal("Pods are more than a small change")
	}
	in.mesh = next
	in.r.Push(next, model.Change{})
	synctest.Wait()
}

// proxy connects a proxy of a Pod, with clusters and endpoints.
func (in *town) proxy(v content.Variant, pod, ip string) *client {
	in.r.t.Helper()
	c := in.r.connect(v)
	c.node.Id = fmt.Sprintf("sidecar~%s~%s.default~default.svc.cluster.local", ip, pod)
	return c.begin()
}

func (c *client) begin() *client {
	c.t.Helper()
	c.want("clusters", c.subscribe(content.CDS), "cds:BlackHoleCluster,PassthroughCluster,"+adstest.Cluster("any")+","+adstest.Cluster("near"))
	c.want("endpoints", c.subscribe(content.EDS, adstest.Cluster("any"), adstest.Cluster("near")), "eds:"+adstest.Cluster("any")+","+adstest.Cluster("near"))
	c.ack(content.EDS)
	c.want("the last ACK", c.ack(content.CDS), "")
	return c
}

// order returns the endpoints of near.com that a proxy was sent last, with their priorities.
func (in *town) order(pod string) string {
	in.r.t.Helper()
	all, err := in.r.Dump(pod + ".default")
	if err != nil {
		in.r.t.Fatal(err)
	}
	for _, text := range all["eds"] {
		var a struct {
			ClusterName string
			Endpoints   []struct {
				Priority    int
				LbEndpoints []struct {
					Endpoint struct {
						Address struct{ SocketAddress struct{ Address string } }
					}
				}
			}
		}
		if err := json.Unmarshal(text, &a); err != nil {
			in.r.t.Fatal(err)
		}
		if a.ClusterName != adstest.Cluster("near") {
			continue
		}
		var out []string
		for _, group := range a.Endpoints {
			for _, e := range group.LbEndpoints {
				out = append(out, fmt.Sprintf("%s/%d", e.Endpoint.Address.SocketAddress.Address, group.Priority))
			}
		}
		return strings.Join(out, " ")
	}
	return "none"
}

// where returns the locality of a proxy on the pages, and where it comes from.
func (in *town) where(pod string) string {
	for _, c := range in.r.Clients() {
		if strings.Contains(c.Node, "~"+pod+".default~") {
			return c.Locality + " " + c.LocalityFrom
		}
	}
	return "not connected"
}

const (
	anywhere = "10.0.0.1/0 10.0.0.2/0"
	firstZ1  = "10.0.0.1/0 10.0.0.2/1"
	firstZ2  = "10.0.0.2/0 10.0.0.1/1"
)

// A proxy's Pod comes after the proxy, moves, loses its Node's labels and goes: the proxy's endpoints follow, and no
// other proxy is sent anything. Without a service that prefers near endpoints, none is.
func TestProxyFollowsItsPod(t *testing.T) {
	both(t, nil, func(r *rig, v content.Variant) {
		in := newTown(r, model.PreferZone)
		app, other := in.proxy(v, "app", "127.0.0.9"), in.proxy(v, "other", "127.0.0.8")
		for _, step := range []struct{ what, pod, sent, order, where string }{
			{"its Pod is not known yet", "else 127.0.0.7 r/z1", "", anywhere, ` no workload of namespace "default" has its name or one of its addresses`},
			{"it comes", "app 127.0.0.9 r/z1", "eds:" + adstest.Cluster("near"), firstZ1, "r/z1 workload default/app"},
			{"nothing of it changes", "else 127.0.0.7 r/z2", "", firstZ1, "r/z1 workload default/app"},
			{"its Node has another zone", "app 127.0.0.9 r/z2", "eds:" + adstest.Cluster("near"), firstZ2, "r/z2 workload default/app"},
			{"its Node has no labels", "app 127.0.0.9", "eds:" + adstest.Cluster("near"), anywhere, " workload default/app has none"},
			{"it has some again", "app 127.0.0.9 r/z1", "eds:" + adstest.Cluster("near"), firstZ1, "r/z1 workload default/app"},
			{"the address is another's", "app 127.0.0.6 r/z1", "eds:" + adstest.Cluster("near"), anywhere, " workload default/app has none of the proxy's addresses"},
			{"a new Pod of its name", "app 127.0.0.9 r/z2", "eds:" + adstest.Cluster("near"), firstZ2, "r/z2 workload default/app"},
			{"it goes", "app", "eds:" + adstest.Cluster("near"), anywhere, ` no workload of namespace "default" has its name or one of its addresses`},
		} {
			in.pods(step.pod)
			app.want(step.what, app.got(), step.sent)
			if step.sent != "" {
				app.want(step.what+", the ACK", app.ack(content.EDS), "")
			}
			app.want(step.what+", endpoints", in.order("app"), step.order)
			app.want(step.what+", pages", in.where("app"), step.where)
			other.want(step.what+", for another proxy", other.got(), "")
		}
		if log := r.log.String(); !strings.Contains(log, `msg="proxy's locality changed"`) || !strings.Contains(log, `to=r/z2 source="workload default/app"`) {
			t.Errorf("the log does not name the change:\n%s", log)
		}
	})
	both(t, nil, func(r *rig, v content.Variant) {
		in := newTown(r, model.PreferNone)
		app := in.proxy(v, "app", "127.0.0.9")
		in.pods("app 127.0.0.9 r/z1")
		app.want("a locality that nothing reads", app.got(), "")
		app.want("pages", in.where("app"), "r/z1 workload default/app")
		if n := r.views(); n != 1 && n != 2 { // of one generation, or of two
			t.Errorf("there are %d views, want one for each generation", n)
		}
	})
}

// Two Pods of the host's network have one address; each proxy has the locality of its own Pod. The locality that a
// node sends has precedence, and a Pod does not change it.
func TestOneAddressOfTwoPods(t *testing.T) {
	both(t, nil, func(r *rig, v content.Variant) {
		in := newTown(r, model.PreferZone)
		in.pods("one 127.0.0.9 r/z1", "two 127.0.0.9 r/z2")
		one, two := in.proxy(v, "one", "127.0.0.9"), in.proxy(v, "two", "127.0.0.9")
		set := in.r.connect(v)
		set.node.Id = "sidecar~127.0.0.9~three.default~default.svc.cluster.local"
		set.node.Locality = &corev3.Locality{Region: "r", Zone: "z2"}
		set.begin()
		one.want("one", in.order("one"), firstZ1)
		two.want("two", in.order("two"), firstZ2)
		set.want("its node says it", in.where("three"), "r/z2 node")
		in.pods("three 127.0.0.9 r/z1", "two 127.0.0.9 r/z1")
		one.want("one", one.got(), "")
		two.want("two moves", two.got(), "eds:"+adstest.Cluster("near"))
		set.want("its node says it", set.got(), "")
		set.want("its node says it", in.where("three"), "r/z2 node")
	})
}

// The zone of a Node changes: the proxies on it share one new view, each looks once, and the others are not told. A
// change of an endpoint makes none look again.
func TestNodeMovesManyProxies(t *testing.T) {
	const n = 6
	both(t, nil, func(r *rig, v content.Variant) {
		in := newTown(r, model.PreferZone)
		var clients []*client
		var first, moved []string
		for i := range n {
			at := fmt.Sprintf("p%d 127.0.1.%d r/", i, i+1)
			first = append(first, at+"z1")
			if i%2 == 0 {
				moved = append(moved, at+"z2")
			}
		}
		in.pods(first...)
		for i := range n {
			clients = append(clients, in.proxy(v, fmt.Sprintf("p%d", i), fmt.Sprintf("127.0.1.%d", i+1)))
		}
		in.pods(moved...)
		for i, c := range clients {
			c.want(fmt.Sprint("proxy ", i), c.got(), map[bool]string{true: "eds:" + adstest.Cluster("near")}[i%2 == 0])
		}
		if rebuilt := r.current.Load().Work.Rebuilt.Total(); rebuilt != 2 {
			t.Errorf("%d views are made, want one for each zone", rebuilt)
		}
		for _, st := range r.all() {
			residents := st.locality.residents
			near := *in.mesh.Service("near.com")
			near.Endpoints = slices.Clone(near.Endpoints[:1])
			with, ok := in.mesh.With([]*model.Service{&near}, nil)
			if !ok || with.Residents("default") != residents || residents == nil {
				t.Fatalf("residents differ after a change of an endpoint: %p and %p", with.Residents("default"), residents)
			}
			if _, looked := st.locality.find(with); looked {
				t.Error("a proxy looks up its workload again though no workload changed")
			}
		}
	})
}

// A locality that discovery finds counts as a view of the identity, and moves with it. A stream that is served is not
// refused for it.
func TestFoundLocalitiesCountAsViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := testLimits()
		limits.ViewsPerIdentity = 1
		r := &rig{running: runWith(t, limits, nil), t: t}
		in := newTown(r, model.PreferZone)
		in.pods("one 127.0.0.9 r/z1", "two 127.0.0.8 r/z1")
		one := in.proxy(content.SotW, "one", "127.0.0.9")
		in.proxy(content.SotW, "two", "127.0.0.8") // the same view
		in.pods("one 127.0.0.9 r/z2")
		one.want("it moves", one.got(), "eds:"+adstest.Cluster("near"))
		count := func() (used int) {
			r.viewLimiter.mu.Lock()
			defer r.viewLimiter.mu.Unlock()
			for _, own := range r.viewLimiter.views {
				for _, streams := range own {
					if streams < 0 {
						t.Error("a view has fewer streams than none")
					}
					if streams > 0 {
						used++
					}
				}
			}
			return used
		}
		if n := count(); n != 2 {
			t.Errorf("%d views are counted, want one for each zone", n)
		}
		c := r.connect(content.SotW)
		c.node.Id = "sidecar~127.0.0.7~three.default~default.svc.cluster.local"
		if c.subscribe(content.CDS); c.ended == nil {
			t.Error("a third view, without a locality, is allowed")
		}
		in.pods("one 127.0.0.9 r/z1")
		if n := count(); n != 1 {
			t.Errorf("%d views are counted when it is back, want 1", n)
		}
	})
}

// A certificate of another service account proves that a Pod is not the proxy's.
func TestLocalityOfAnothersPod(t *testing.T) {
	a := newAuthority(t)
	secure, err := NewTLS(a.write(t.TempDir(), a.issue(2, "")), nil)
	a.check(err)
	r := &rig{running: runWith(t, testLimits(), secure), t: t}
	town := &town{r: r, groups: map[string]model.Group{
		"app": {Workloads: []*model.Workload{{
			Registry: "Kubernetes", Namespace: "default", Name: "app", Addresses: []string{"127.0.0.9"}, ServiceAccount: "app",
			Locality: model.ParseLocality("r/z1"),
		}}},
	}}
	r.Push(model.New(town.all), model.Change{})
	for account, want := range map[string]string{
		"app":   "r/z1 workload default/app",
		"thief": " workload default/app runs as another service account than the proxy's certificate proves",
	} {
		conn := r.dial(a.client(nil, a.issue(3, "spiffe://cluster.local/ns/default/sa/"+account)))
		r.openOn(conn).ask(content.ClusterType)
		if got := town.where("app"); got != want {
			t.Errorf("a proxy of account %s is at %q, want %q", account, got, want)
		}
		conn.Close()
		adstest.Until(t, "its end", func() bool { return len(r.Clients()) == 0 })
	}
}
