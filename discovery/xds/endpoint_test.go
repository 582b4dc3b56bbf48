package xds

import (
	"slices"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// proxyAt returns the view of a proxy in a mesh.
func proxyAt(m *model.Mesh, role node.Role, namespace string, ips ...string) Outbound {
	v := ViewOf(Proxy{ID: node.ID{Role: role, IP: ips[0]}, Metadata: node.Metadata{
		Namespace: namespace, InterceptionMode: node.Redirect, InstanceIPs: ips[1:],
	}})
	return v.Outbound.In(m)
}

// addressesIn returns the addresses of all endpoints in all forms in which Envoy gets them.
func addressesIn(r *Resources) string {
	var out []string
	add := func(a *endpointv3.ClusterLoadAssignment) {
		for _, group := range a.GetEndpoints() {
			for _, e := range group.LbEndpoints {
				at := e.GetEndpoint().GetAddress()
				out = append(out, at.GetSocketAddress().GetAddress()+at.GetPipe().GetPath())
			}
		}
	}
	for _, c := range r.Clusters {
		add(c.LoadAssignment)
	}
	for _, a := range r.Endpoints {
		add(a)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

func meshOfOne(flag bool, services ...*model.Service) *model.Mesh {
	return model.NewOf(model.Settings{LoopbackEndpoints: flag}, slices.Values([]model.Group{{Services: services}}))
}

// A tenant's service of every resolution, with an endpoint at each kind of local address: what a gateway, a sidecar of
// the tenant and a sidecar of another namespace get.
func TestLocalEndpointsStayAtHome(t *testing.T) {
	addresses := []string{
		"127.0.0.1", "::ffff:127.0.0.1", "::1", "0.0.0.0", "::", "127.0.0.7", "169.254.169.254", "fe80::1", "10.0.0.1",
		"unix:///run/app.sock", "unix:///etc/istio/proxy/private-0/sds.sock",
	}
	evil := func(r model.Resolution, port uint32, more ...string) *model.Service {
		s := &model.Service{Right: model.RightFull, Host: "evil.test", Namespace: "evil", Resolution: r, Ports: []model.Port{httpPort(port)}}
		for _, a := range append(more, addresses...) {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Address: a})
		}
		return s
	}
	const own = "0.0.0.0 10.0.0.1 127.0.0.1 127.0.0.7 169.254.169.254 /run/app.sock :: ::1 ::ffff:127.0.0.1 fe80::1"
	for name, test := range map[string]struct {
		service                   *model.Service
		flag                      bool
		gateway, tenant, neighbor string
	}{
		"endpoints":    {evil(model.ResolutionStatic, 80), false, "10.0.0.1", own, "10.0.0.1"},
		"flag":         {evil(model.ResolutionStatic, 80), true, "10.0.0.1 127.0.0.7", own, "0.0.0.0 10.0.0.1 127.0.0.1 127.0.0.7 :: ::1 ::ffff:127.0.0.1"},
		"names":        {evil(model.ResolutionDNS, 80, "localhost", "127.1", "api.test"), false, "10.0.0.1 api.test", own + " 127.1 api.test localhost", "10.0.0.1 api.test"},
		"admin":        {evil(model.ResolutionStatic, 15000), true, "", "10.0.0.1 169.254.169.254 /run/app.sock fe80::1", "10.0.0.1"},
		"admin, names": {evil(model.ResolutionDNS, 15000, "localhost"), true, "", "10.0.0.1 169.254.169.254 /run/app.sock fe80::1", "10.0.0.1"},
		"dialled":      {evil(model.ResolutionNone, 80), false, "10.0.0.1", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := meshOfOne(test.flag, test.service)
			for who, proxy := range map[string]struct {
				role            node.Role
				namespace, want string
			}{
				"a gateway": {node.Router, "istio-ingress", test.gateway}, "the tenant's gateway": {node.Router, "evil", test.gateway},
				"the tenant": {node.Sidecar, "evil", test.tenant}, "a neighbor": {node.Sidecar, "shop", test.neighbor},
			} {
				got := addressesIn(BuildOutbound(m, proxyAt(m, proxy.role, proxy.namespace, "10.9.9.9")))
				want := strings.Fields(proxy.want)
				slices.Sort(want)
				if got != strings.Join(want, " ") {
					t.Errorf("%s gets %s, want %s", who, got, want)
				}
			}
		})
	}
}

// A service becomes local by a change of its endpoints alone: the short path withholds them as a full build does.
func TestShortPathWithholds(t *testing.T) {
	at := func(address string) *model.Service {
		return &model.Service{
			Right: model.RightFull, Host: "evil.test", Namespace: "evil", Resolution: model.ResolutionStatic, Ports: []model.Port{httpPort(80)},
			Endpoints: []model.Endpoint{{Address: address}},
		}
	}
	m := meshOfOne(false, at("10.0.0.1"), service("other.test", httpPort(80)))
	for _, namespace := range []string{"shop", "evil"} {
		last, mesh := BuildOutbound(m, proxyAt(m, node.Sidecar, namespace, "10.9.9.9")), m
		for _, step := range []string{"127.0.0.1", "10.0.0.2", "unix:///run/a", "::ffff:127.0.0.1"} {
			next, ok := mesh.With([]*model.Service{at(step)}, nil)
			if !ok {
				t.Fatal("no short path")
			}
			v := proxyAt(next, node.Sidecar, namespace, "10.9.9.9")
			r := RebuildOutbound(last, next, v)
			if _, patched := r.PatchOf(last); !patched {
				t.Fatal("not patched")
			}
			if got, want := addressesIn(r), addressesIn(BuildOutbound(next, v)); got != want || namespace == "shop" && got != "" && got != "10.0.0.2" {
				t.Errorf("%s, %s: patched to %q, built is %q", namespace, step, got, want)
			}
			last, mesh = r, next
		}
	}
}

// A gateway gets no endpoint of another namespace at its own address, in any spelling, and keeps those of its own
// namespace; a sidecar keeps both, but at ports of its agent.
func TestOwnAddressesAreNoEndpoints(t *testing.T) {
	of := func(namespace string, port uint32, address string) *model.Service {
		s := service(namespace+".test", httpPort(port), at(address, "v1"), at("10.0.0.1", "v1"))
		s.Namespace = namespace
		return s
	}
	for name, test := range map[string]struct {
		service *model.Service
		role    node.Role
		want    string
	}{
		"a tenant's":            {of("evil", 80, "10.9.9.9"), node.Router, "10.0.0.1"},
		"a tenant's, mapped":    {of("evil", 80, "::ffff:10.9.9.9"), node.Router, "10.0.0.1"},
		"a further address":     {of("evil", 80, "fd00::9"), node.Router, "10.0.0.1"},
		"its own":               {of("istio-ingress", 80, "10.9.9.9"), node.Router, "10.0.0.1 10.9.9.9"},
		"its own, at its agent": {of("istio-ingress", 15021, "10.9.9.9"), node.Router, ""},
		"a sidecar":             {of("evil", 80, "10.9.9.9"), node.Sidecar, "10.0.0.1 10.9.9.9"},
		"a sidecar, its agent":  {of("evil", 15020, "10.9.9.9"), node.Sidecar, "10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := meshOfOne(false, test.service)
			if got := addressesIn(BuildOutbound(m, proxyAt(m, test.role, "istio-ingress", "10.9.9.9", "fd00::9"))); got != test.want {
				t.Errorf("gets %s, want %s", got, test.want)
			}
		})
	}
}

// A gateway opens neither a Unix socket nor one address of its port for a Gateway of another namespace, in a directory
// whose objects have no age too.
func TestGatewayOpensNothingForOthers(t *testing.T) {
	gateway := func(namespace, bind string, port uint32) *model.Object {
		return &model.Object{Meta: model.Meta{Kind: "Gateway", Namespace: namespace, Name: "gw"}, Spec: &networking.Gateway{Servers: []*networking.Server{
			{Bind: bind, Port: &networking.Port{Number: port, Name: "http", Protocol: "HTTP"}, Hosts: []string{"*"}},
		}}}
	}
	m := model.New(slices.Values([]model.Group{{Objects: []*model.Object{
		gateway("a-evil", "unix:///tmp/x.sock", 0), gateway("b-evil", "127.0.0.1", 80), gateway("c-evil", "10.9.9.9", 80),
		gateway("istio-ingress", "", 80),
	}}}))
	var got []string
	for _, l := range BuildOutbound(m, proxyAt(m, node.Router, "istio-ingress", "10.9.9.9")).Listeners {
		got = append(got, l.Name)
	}
	if strings.Join(got, " ") != "0.0.0.0_80" {
		t.Errorf("listeners are %s, want 0.0.0.0_80 alone", got)
	}
}

// Without an endpoint that depends on it, neither the address of a proxy nor its namespace parts the views.
func TestNothingWithheldCostsNothing(t *testing.T) {
	plain := service("a.test", httpPort(80), at("10.0.0.1", "v1"))
	m := meshOfOne(false, plain)
	one, two := proxyAt(m, node.Router, "a", "10.0.0.8"), proxyAt(m, node.Router, "b", "10.0.0.9")
	if one != two {
		t.Errorf("the views differ: %+v, %+v", one, two)
	}
	a := RebuildOutbound(nil, m, one)
	b := RebuildWithSibling(nil, a, m, two)
	if len(a.Clusters) == 0 || !slices.Equal(a.Clusters, b.Clusters) || !slices.Equal(a.Endpoints, b.Endpoints) {
		t.Error("the clusters are not shared")
	}
	local := service("a.test", httpPort(80), at("127.0.0.1", "v1"))
	m = meshOfOne(false, local)
	if proxyAt(m, node.Sidecar, "default", "10.0.0.8") != proxyAt(m, node.Sidecar, "default", "10.0.0.9") {
		t.Error("views of two addresses differ though no endpoint has one of them")
	}
}

// No cluster that shows a certificate of the mesh has an endpoint at an address of discovery's: its listener, or the Service, cluster IP, name and
// replicas behind which it is. Bytes, and TLS that the client itself speaks, pass, so that machines join through a gateway; another
// tenant's Pod is not discovery's because a third lists both.
func TestNoCertificateIsShownToDiscovery(t *testing.T) {
	const istio, mutual, simple = networking.ClientTLSSettings_ISTIO_MUTUAL, networking.ClientTLSSettings_MUTUAL, networking.ClientTLSSettings_SIMPLE
	discovery := &model.Service{
		Right: model.RightFull, Registry: "Kubernetes", Host: "discovery.istio-system.svc.cluster.local", Namespace: "istio-system", Resolution: model.ResolutionStatic, Addresses: []string{"10.96.0.5"},
		Ports:     []model.Port{{Name: "xds", Number: 443, Target: 15012, Protocol: model.TCP}, {Name: "metrics", Number: 15014, Protocol: model.HTTP}},
		Endpoints: []model.Endpoint{{Address: "10.0.0.5"}, {Address: "10.0.0.6"}},
	}
	lure := &model.Service{
		Right: model.RightFull, Registry: "Kubernetes", Host: "lure.evil.svc.cluster.local", Namespace: "evil", Resolution: model.ResolutionStatic, Ports: []model.Port{httpPort(15012)},
		Endpoints: []model.Endpoint{{Address: "10.0.0.5"}, {Address: "10.0.0.99"}},
	}
	for name, row := range map[string]struct {
		address   string
		port      uint32
		namespace string
		tls       *networking.ClientTLSSettings
		label     bool
		gone      bool
	}{
		"its listener":               {"10.0.0.5", 15012, "evil", &networking.ClientTLSSettings{Mode: istio}, false, true},
		"another form of it":         {"::ffff:10.0.0.5", 15012, "evil", &networking.ClientTLSSettings{Mode: istio}, false, true},
		"a replica":                  {"10.0.0.6", 15012, "evil", &networking.ClientTLSSettings{Mode: istio}, false, true},
		"its cluster IP":             {"10.96.0.5", 443, "evil", &networking.ClientTLSSettings{Mode: istio}, false, true},
		"its name":                   {"Discovery.istio-system.svc.cluster.local.", 443, "evil", &networking.ClientTLSSettings{Mode: istio}, false, true},
		"automatically":              {"10.0.0.5", 15012, "evil", nil, true, true},
		"in the root namespace":      {"10.0.0.5", 15012, "istio-system", &networking.ClientTLSSettings{Mode: istio}, false, true},
		"certificates of files":      {"10.0.0.5", 15012, "evil", &networking.ClientTLSSettings{Mode: mutual, ClientCertificate: "/a", PrivateKey: "/b"}, false, true},
		"files of the operator":      {"10.0.0.5", 15012, "istio-system", &networking.ClientTLSSettings{Mode: mutual, ClientCertificate: "/a", PrivateKey: "/b"}, false, false},
		"a secret":                   {"10.0.0.5", 15012, "evil", &networking.ClientTLSSettings{Mode: mutual, CredentialName: "a"}, false, false},
		"without a certificate":      {"10.0.0.5", 15012, "evil", &networking.ClientTLSSettings{Mode: simple}, false, false},
		"bytes":                      {"10.0.0.5", 15012, "istio-system", nil, false, false},
		"its monitoring port":        {"10.0.0.5", 15014, "evil", &networking.ClientTLSSettings{Mode: istio}, false, false},
		"another Pod":                {"10.0.0.7", 15012, "evil", &networking.ClientTLSSettings{Mode: istio}, false, false},
		"a Pod that a tenant listed": {"10.0.0.99", 15012, "bank", &networking.ClientTLSSettings{Mode: istio}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &model.Service{
				Right: model.RightFull, Host: "way.test", Namespace: row.namespace, Resolution: model.ResolutionStatic, Ports: []model.Port{httpPort(row.port)},
				Endpoints: []model.Endpoint{{Address: row.address, Proxied: row.label}},
			}
			if strings.Contains(row.address, "svc") {
				s.Resolution = model.ResolutionDNS
			}
			group := model.Group{Services: []*model.Service{s, discovery, lure}}
			if row.tls != nil {
				group.Objects = []*model.Object{{
					Meta: model.Meta{Kind: "DestinationRule", Namespace: row.namespace, Name: "way"},
					Spec: &networking.DestinationRule{Host: "way.test", TrafficPolicy: &networking.TrafficPolicy{Tls: row.tls}},
				}}
			}
			m := model.NewOf(model.Settings{Domain: model.DefaultDomain, Listeners: "10.0.0.5:15012,127.0.0.1:15012"}, slices.Values([]model.Group{group}))
			for _, role := range []node.Role{node.Router, node.Sidecar} {
				v := proxyAt(m, role, "edge", "10.9.9.9")
				v.Identity.Certified = true
				in := inputsOf(m, s, m.Scope("edge", nil).DestinationRule(s), &v, false)
				made := in.clusters()
				n := 0
				for _, a := range made.Endpoints {
					n += len(a.Endpoints)
				}
				for _, c := range made.Clusters {
					n += len(c.GetLoadAssignment().GetEndpoints())
				}
				if (n == 0) != row.gone {
					t.Errorf("%v: %d groups of endpoints, gone: %v", role, n, row.gone)
				}
			}
			noted := 0
			for _, note := range m.Notes() {
				if note.Code == model.LocalEndpoint && strings.Contains(note.Message, "leads to discovery") && strings.Contains(note.Message, "way.test") {
					noted++
				}
			}
			if row.gone && row.namespace != "istio-system" && noted != 1 {
				t.Errorf("%d notes, want one", noted)
			}
		})
	}
}
