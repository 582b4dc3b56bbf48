package ads

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// rig is a server over bufconn in a bubble of synctest, in which a test can detect that nothing is sent: all goroutines
// wait.
type rig struct {
	*running
	t *testing.T
}

// overWire runs a test of the protocol with real gRPC between client and server.
func overWire(t *testing.T, first *content.Snapshot, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{running: run(t), t: t}
		if first != nil {
			r.push(first)
		}
		test(r)
	})
}

// push makes s the snapshot that the tests' node gets, with made-up contents.
func (r *rig) push(s *content.Snapshot) {
	r.t.Helper()
	g := r.current.Load().follow(adstest.Mesh(1), model.Change{}, r.names)
	g.Snapshots.Get(content.Reader{View: adstest.View(r.t, "127.0.0.9")}, func() *content.Snapshot { return s })
	r.publish(g)
	synctest.Wait()
}

// client is the client end of one stream. It keeps the state that Envoy keeps.
type client struct {
	t       *testing.T
	variant content.Variant
	wire    grpc.ClientStream
	node    *corev3.Node // of the next request
	names   [content.Kinds][]string

	mu       sync.Mutex
	arrived  []string
	nonce    [content.Kinds]string
	version  [content.Kinds]string // received last
	accepted [content.Kinds]string
	versions [content.Kinds]map[string]string // of each resource
	table    []byte                           // of names, received last
	ended    error
}

const adsPath = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"

func (r *rig) connect(v content.Variant) *client {
	r.t.Helper()
	return r.connectBy(r.client, v)
}

// connectBy opens an aggregated stream on a connection.
func (r *rig) connectBy(conn *grpc.ClientConn, v content.Variant) *client {
	r.t.Helper()
	return r.connectTo(conn, v, adsPath+[content.Variants]string{"Stream", "Delta"}[v]+"AggregatedResources")
}

// dialPlain makes a separate connection.
func (r *rig) dialPlain() *grpc.ClientConn {
	r.t.Helper()
	conn := r.dial(insecure.NewCredentials())
	r.t.Cleanup(func() { conn.Close() })
	return conn
}

func (r *rig) connectTo(conn *grpc.ClientConn, v content.Variant, path string) *client {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	wire, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	if err != nil {
		r.t.Fatal(err)
	}
	c := &client{t: r.t, variant: v, wire: wire, node: adstest.Node()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c.receive() {
		}
	}()
	r.t.Cleanup(func() { cancel(); <-done })
	return c
}

func (c *client) receive() bool {
	if c.variant == content.Delta {
		m := &discoveryv3.DeltaDiscoveryResponse{}
		err := c.wire.RecvMsg(m)
		versions := map[string]string{}
		for _, r := range m.Resources {
			versions[r.Name] = r.Version
			c.keep(r.Resource)
		}
		return c.take(m.TypeUrl, m.Nonce, m.SystemVersionInfo, versions, m.RemovedResources, err)
	}
	m := &discoveryv3.DiscoveryResponse{}
	err := c.wire.RecvMsg(m)
	versions := map[string]string{}
	for _, r := range m.Resources {
		c.keep(r)
		name := nameIn(r)
		if _, twice := versions[name]; twice {
			c.t.Errorf("%s is in one response twice", name)
		}
		versions[name] = ""
	}
	return c.take(m.TypeUrl, m.Nonce, m.VersionInfo, versions, nil, err)
}

func (c *client) keep(r *anypb.Any) {
	if r.TypeUrl == content.NamesType {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.table = r.Value
	}
}

// nameIn returns the name at the beginning of made-up contents and of real resources: field 1, of less than 128 bytes.
func nameIn(r *anypb.Any) string {
	if r.TypeUrl == content.NamesType {
		return content.TableName
	}
	name, _, _ := strings.Cut(string(r.Value[2:2+r.Value[1]]), "=")
	return name
}

func (c *client) take(typeURL, nonce, version string, versions map[string]string, removed []string, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.ended = err
		return false
	}
	k, _ := content.KindOf(typeURL)
	if nonce == "" || nonce == c.nonce[k] || version == "" {
		c.t.Errorf("response of %s with nonce %q, version %q: want its own", typeURL, nonce, version)
	}
	c.nonce[k], c.version[k] = nonce, version
	if c.versions[k] == nil {
		c.versions[k] = map[string]string{}
	}
	var changed []string
	for name, v := range versions {
		c.versions[k][name] = v
		changed = append(changed, name)
	}
	for _, name := range removed {
		delete(c.versions[k], name)
		changed = append(changed, "-"+name)
	}
	slices.Sort(changed)
	c.arrived = append(c.arrived, fmt.Sprintf("%s:%s", k, strings.Join(changed, ",")))
	return true
}

// got waits until all goroutines are idle, and returns the responses since the last call.
func (c *client) got() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.arrived = nil }()
	return strings.Join(c.arrived, " ")
}

func (c *client) want(what, got, want string) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// ask sends a request of the state of the world: these names, with the nonce and version of the last response.
func (c *client) ask(k content.Kind, names ...string) string {
	c.t.Helper()
	c.names[k] = names
	return c.say(k, &discoveryv3.DiscoveryRequest{ResponseNonce: c.nonce[k], VersionInfo: c.accepted[k]})
}

func (c *client) ack(k content.Kind) string {
	c.t.Helper()
	c.accepted[k] = c.version[k]
	if c.variant == content.Delta {
		return c.request(k, &discoveryv3.DeltaDiscoveryRequest{ResponseNonce: c.nonce[k]})
	}
	return c.say(k, &discoveryv3.DiscoveryRequest{ResponseNonce: c.nonce[k], VersionInfo: c.accepted[k]})
}

func (c *client) nack(k content.Kind, text string) string {
	c.t.Helper()
	if c.variant == content.Delta {
		return c.request(k, &discoveryv3.DeltaDiscoveryRequest{ResponseNonce: c.nonce[k], ErrorDetail: refused(text)})
	}
	return c.say(k, &discoveryv3.DiscoveryRequest{ResponseNonce: c.nonce[k], VersionInfo: c.accepted[k], ErrorDetail: refused(text)})
}

func (c *client) say(k content.Kind, m *discoveryv3.DiscoveryRequest) string {
	c.t.Helper()
	m.TypeUrl, m.ResourceNames, m.Node = k.TypeURL(), c.names[k], c.node
	return c.send(m)
}

// sub sends a request of the delta variant that answers no response; a name with a minus is unsubscribed.
func (c *client) sub(k content.Kind, names ...string) string {
	c.t.Helper()
	return c.resume(k, nil, names...)
}

// resume is sub of a client that has resources, by name and version.
func (c *client) resume(k content.Kind, had map[string]string, names ...string) string {
	c.t.Helper()
	m := &discoveryv3.DeltaDiscoveryRequest{InitialResourceVersions: had}
	for _, name := range names {
		if gone, ok := strings.CutPrefix(name, "-"); ok {
			m.ResourceNamesUnsubscribe = append(m.ResourceNamesUnsubscribe, gone)
		} else {
			m.ResourceNamesSubscribe = append(m.ResourceNamesSubscribe, name)
		}
	}
	return c.request(k, m)
}

func (c *client) request(k content.Kind, m *discoveryv3.DeltaDiscoveryRequest) string {
	c.t.Helper()
	m.TypeUrl, m.Node = k.TypeURL(), c.node
	return c.send(m)
}

func (c *client) send(m any) string {
	c.t.Helper()
	c.node = nil
	if err := c.wire.SendMsg(m); err != nil {
		c.t.Fatal(err)
	}
	return c.got()
}

// subscribe is ask or sub, depending on the client's variant.
func (c *client) subscribe(k content.Kind, names ...string) string {
	c.t.Helper()
	if c.variant == content.Delta {
		return c.sub(k, names...)
	}
	return c.ask(k, names...)
}

// started goes through Envoy's own order until everything is accepted.
func (r *rig) started(v content.Variant, s *content.Snapshot) *client {
	r.t.Helper()
	c := r.connect(v)
	var names [content.Kinds][]string
	for k := range content.Kinds {
		for _, resource := range s[k].All() {
			names[k] = append(names[k], resource.Name)
		}
	}
	c.subscribe(content.CDS)
	if names[content.EDS] != nil {
		c.subscribe(content.EDS, names[content.EDS]...)
		c.ack(content.EDS)
	}
	c.ack(content.CDS)
	c.subscribe(content.LDS)
	if names[content.RDS] != nil {
		c.subscribe(content.RDS, names[content.RDS]...)
		c.ack(content.RDS)
	}
	c.want("a last ACK", c.ack(content.LDS), "")
	return c
}

// both runs a test with a client of each variant.
func both(t *testing.T, first *content.Snapshot, test func(r *rig, v content.Variant)) {
	for v := range content.Variants {
		t.Run([content.Variants]string{"sotw", "delta"}[v], func(t *testing.T) {
			overWire(t, first, func(r *rig) { test(r, v) })
		})
	}
}

// withoutType subscribes as clients of a service of one kind may.
func (c *client) withoutType(names []string) string {
	c.t.Helper()
	if c.variant == content.Delta {
		return c.send(&discoveryv3.DeltaDiscoveryRequest{Node: c.node, ResourceNamesSubscribe: names})
	}
	return c.send(&discoveryv3.DiscoveryRequest{Node: c.node, ResourceNames: names})
}

// A proxy of another domain than the mesh's is connected, and named in the log and among the clients.
func TestProxyOfAnotherDomain(t *testing.T) {
	for domain, want := range map[model.Domain]bool{"": false, "corp.example": true} {
		r := run(t)
		r.Push(model.NewIn(domain, slices.Values([]model.Group{{Services: adstest.Mesh(1, "a").Services()}})), model.Change{})
		r.open().ask(content.ClusterType)
		const fault = "the DNS domain of the proxy is default.svc.cluster.local, want NAMESPACE.svc.corp.example: it reaches services by their whole hosts only"
		if got := r.Clients()[0].Fault; (got == fault) != want || !want && got != "" {
			t.Errorf("%q: the page shows %q", domain, got)
		}
		if said := strings.Contains(r.log.String(), "short names of services do not work for a proxy\" node="+adstest.NodeID); said != want {
			t.Errorf("%q: the log is\n%s", domain, r.log)
		}
	}
}

// What a node says about itself reaches the notes: its domain, Envoy's version, the capture of DNS; each stream has a number of
// its own.
func TestProxiesHaveWhatTheirNodesSay(t *testing.T) {
	overWire(t, base, func(r *rig) {
		for range 2 {
			c := r.connect(content.Delta)
			c.node.Id = "sidecar~127.0.0.9~app.default~away.svc.cluster.local"
			c.node.UserAgentName = "envoy"
			c.node.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{
				UserAgentBuildVersion: &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 39}},
			}
			c.node.Metadata.Fields["NAMESPACE"] = structpb.NewStringValue("default")
			c.node.Metadata.Fields["DNS_CAPTURE"] = structpb.NewStringValue("true")
			c.node.Metadata.Fields["DNS_AUTO_ALLOCATE"] = structpb.NewStringValue("no")
			c.subscribe(content.CDS)
		}
		all := r.Proxies()
		if len(all) != 2 || all[0].Stream == all[1].Stream || all[0].Stream == 0 || all[1].Stream == 0 {
			t.Fatalf("the proxies are %+v, want two with numbers", all)
		}
		for _, w := range all {
			if w.Namespace != "default" || w.Domain != "away.svc.cluster.local" || w.Version != "envoy 1.39.0" || !w.Binds ||
				w.DNS != (model.DNS{Capture: model.DNSOn, Auto: model.DNSOff}) {
				t.Errorf("a proxy is %+v", w)
			}
		}
		codes := map[model.Code]int{}
		for _, n := range r.Mesh().Notes(all...) {
			codes[n.Code]++
		}
		if codes[model.WrongNamespace] != 1 || codes[model.OldEnvoy] != 1 || codes[model.DNSCapture] != 1 || len(codes) != 3 {
			t.Errorf("notes are %v, want one of each for the two streams of one proxy", codes)
		}
	})
}

// What an agent says of itself reaches the notes and /debug.
func TestProxiesHaveWhatTheirAgentsSay(t *testing.T) {
	overWire(t, base, func(r *rig) {
		m := model.NewOf(model.Settings{Release: "v0.2.0"}, slices.Values([]model.Group{{}}))
		long := strings.Repeat("9", 5000)
		for name, test := range map[string]struct {
			metadata map[string]string
			agent    string
			want     []model.Code
		}{
			"of today":        {map[string]string{"PILOTLIGHT_VERSION": "v0.2.0"}, "v0.2.0", nil},
			"older":           {map[string]string{"PILOTLIGHT_VERSION": "v0.1.7", "PILOTLIGHT_BYPASSED": "8080 10.0.0.7"}, "v0.1.7", []model.Code{model.NoRedirect, model.OldAgent}},
			"of 0.1":          {map[string]string{"PILOTLIGHT_SDS": "files"}, "v0.1", []model.Code{model.OldAgent}},
			"istios":          {map[string]string{"ISTIO_VERSION": "1.31.1"}, "", nil},
			"hostile":         {map[string]string{"PILOTLIGHT_VERSION": long}, protocol.Clip(long), nil},
			"a developer's":   {map[string]string{"PILOTLIGHT_VERSION": "(devel)"}, "(devel)", nil},
			"without agent":   {nil, "", nil},
			"of the next one": {map[string]string{"PILOTLIGHT_VERSION": "v0.3.0"}, "v0.3.0", nil},
		} {
			c := r.connect(content.Delta)
			c.node.Id = "sidecar~127.0.0.9~" + name + ".default~default.svc.cluster.local"
			delete(c.node.Metadata.Fields, "INTERCEPTION_MODE")
			for key, value := range test.metadata {
				c.node.Metadata.Fields[key] = structpb.NewStringValue(value)
			}
			c.subscribe(content.CDS)
			var codes []model.Code
			for _, n := range m.Notes(r.Proxies()...) {
				if n.Meta.Name == name {
					codes = append(codes, n.Code)
				}
			}
			if slices.Sort(codes); !slices.Equal(codes, test.want) {
				t.Errorf("%s: notes are %v, want %v", name, codes, test.want)
			}
			for _, c := range r.Clients() {
				if c.Name == name && c.Agent != test.agent {
					t.Errorf("%s: its agent is %.100q in /debug, want %.100q", name, c.Agent, test.agent)
				}
			}
		}
		if n := len(r.Clients()); n != 8 {
			t.Errorf("%d proxies are connected, want 8", n)
		}
	})
}

// A proxy that has left is named until it is back, or for a while; only the last ones are kept.
func TestGone(t *testing.T) {
	start := time.Unix(1000, 0)
	var d disconnectedProxies
	d.add(Disconnected{At: start}) // it never said who it is
	d.add(Disconnected{Node: "sidecar~10.0.0.1~a.shop~x", At: start, Cause: "client"})
	d.add(Disconnected{Node: "b", At: start.Add(time.Second)})
	d.add(Disconnected{Node: "sidecar~10.0.0.1~a.shop~x", At: start.Add(2 * time.Second), Cause: "slow"})
	got := fmt.Sprint(d.since(start, nil))
	if want := fmt.Sprint([]Disconnected{{"sidecar~10.0.0.1~a.shop~x", "a.shop", "10.0.0.1", start.Add(2 * time.Second), "slow"}, {"b", "", "", start.Add(time.Second), ""}}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := d.since(start, map[string]bool{"b": true}); len(got) != 1 || got[0].Name != "a.shop" {
		t.Errorf("b is back: got %v", got)
	}
	if got := d.since(start.Add(time.Minute), nil); len(got) != 0 {
		t.Errorf("all left before: got %v", got)
	}
	for i := range 3 * maxDisconnected {
		d.add(Disconnected{Node: fmt.Sprint(i), At: start.Add(time.Hour)})
	}
	if n := len(d.since(start, nil)); n != maxDisconnected {
		t.Errorf("%d are remembered, want %d", n, maxDisconnected)
	}
}

// A proxy is shown by each of its names, with what its newest stream was sent: a lost connection may have left another one. A name of several proxies is refused.
func TestDumpIsOfOneProxy(t *testing.T) {
	overWire(t, nil, func(r *rig) {
		in := newTown(r, model.PreferNone)
		const id = "sidecar~10.0.0.9~web.default~default.svc.cluster.local"
		in.proxy(content.SotW, "web", "10.0.0.9")
		<-time.After(time.Second) // of the bubble
		again := r.connect(content.SotW)
		again.node.Id = id
		again.want("fewer endpoints", again.subscribe(content.EDS, adstest.Cluster("any")), "eds:"+adstest.Cluster("any"))
		for _, name := range []string{id, "web.default", "default/web"} {
			for range 20 { // streams have no order
				all, err := r.Dump(name)
				if err != nil || len(all["eds"]) != 1 || len(all["cds"]) != 4 {
					t.Fatalf("%s: got %d endpoints, %d clusters, %v; want the one of the newest stream, and the clusters that only the other was sent", name, len(all["eds"]), len(all["cds"]), err)
				}
			}
		}
		for _, name := range []string{"web", "shop/web", ""} {
			if _, err := r.Dump(name); err == nil || !strings.Contains(err.Error(), "not connected") {
				t.Errorf("%q: got %v, want that it is not connected", name, err)
			}
		}
		in.proxy(content.SotW, "web", "10.0.0.8")
		const want = `2 proxies have the name "web.default": want the node ID of one, "sidecar~10.0.0.8~web.default~default.svc.cluster.local", "` + id + `"`
		if _, err := r.Dump("web.default"); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		if all, err := r.Dump(id); err != nil || len(all["eds"]) != 1 {
			t.Errorf("by its ID: %v, %v", all, err)
		}
	})
}
