package xds

import (
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestShortNames(t *testing.T) {
	tests := map[string]struct {
		host, domain string
		want         []string
	}{
		"own namespace": {
			"reviews.default.svc.cluster.local", clusterDomain,
			[]string{"reviews.default.svc", "reviews.default", "reviews"},
		},
		"another namespace":                {"reviews.prod.svc.cluster.local", clusterDomain, []string{"reviews.prod.svc", "reviews.prod"}},
		"another suffix":                   {"reviews.default.svc.other", clusterDomain, nil},
		"a host outside":                   {"example.com", clusterDomain, nil},
		"a proxy outside":                  {"reviews.default.svc.cluster.local", "", nil},
		"a name of two parts":              {"a.b.default.svc.cluster.local", clusterDomain, nil},
		"no namespace in host":             {"reviews.svc.cluster.local", clusterDomain, nil},
		"in another domain":                {"reviews.default.svc.corp.example", "default.svc.corp.example", []string{"reviews.default.svc", "reviews.default", "reviews"}},
		"of a proxy of the default domain": {"reviews.default.svc.corp.example", clusterDomain, nil},
		"of a proxy of another domain":     {"reviews.default.svc.cluster.local", "default.svc.corp.example", nil},
		"in a zone named svc":              {"reviews.default.svc.prod.svc.corp", "default.svc.prod.svc.corp", []string{"reviews.default.svc", "reviews.default", "reviews"}},
		"of Consul":                        {"web.service.consul", "service.consul", []string{"web"}},
		"of two labels":                    {"a.web.service.consul", "service.consul", nil},
		"of a namespace":                   {"web.service.team.ns.consul", "service.consul", nil},
		"beside Consul":                    {"web.default.svc.cluster.local", "service.consul", nil},
		"the domain itself":                {"service.consul", "service.consul", nil},
		"a wildcard":                       {"*.service.consul", "service.consul", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, shortNames(test.host, test.domain)); diff != "" {
				t.Errorf("short names (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDomains(t *testing.T) {
	for _, test := range []struct {
		name    string
		service *model.Service
		port    uint32
		want    []string
	}{
		{"another port", &model.Service{Right: model.RightFull, Host: "a.com"}, 8080, []string{"a.com:8080"}},
		{"Pods of a headless service", &model.Service{Right: model.RightFull, Host: "a.com", Headless: true}, 8080, []string{"a.com:8080", "*.a.com:8080"}},
		{"a wildcard at 80", &model.Service{Right: model.RightFull, Host: "*.a.com"}, 80, []string{"*.a.com", "*.a.com:80"}},
		{
			"its own addresses, but no range of them",
			&model.Service{Right: model.RightFull, Host: "a.com", Addresses: []string{"10.1.0.1", "fd00::1", "10.2.0.0/16"}}, 80,
			[]string{"a.com", "a.com:80", "10.1.0.1", "10.1.0.1:80", "[fd00::1]", "[fd00::1]:80"},
		},
	} {
		if diff := cmp.Diff(test.want, domains(test.service, test.port, "", "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestVirtualHostsShareNoDomain(t *testing.T) {
	twice := service(fqdn("a"), httpPort(80))
	twice.Ports = append(twice.Ports, model.Port{Name: "again", Number: 80, Protocol: model.HTTP})
	m := mesh(twice, service("a.default", httpPort(80)), service("*", httpPort(80)))
	routes := served(t, Build(m, viewOf(t, "127.0.0.9")).Routes, httpProxyRoute)
	owners := map[string]string{}
	for _, host := range routes.VirtualHosts {
		if len(host.Domains) == 0 {
			t.Errorf("virtual host %s has no domain", host.Name)
		}
		for _, domain := range host.Domains {
			if other, taken := owners[domain]; taken {
				t.Errorf("domain %s belongs to %s and %s", domain, other, host.Name)
			}
			owners[domain] = host.Name
		}
	}
	if owners["a.default"] != "a.default:80" {
		t.Errorf("a.default leads to %s; a full host goes before a short form", owners["a.default"])
	}
	if owners["*"] != allowAny {
		t.Errorf("* leads to %s, want %s", owners["*"], allowAny)
	}
}

func TestRouteMatch(t *testing.T) {
	tests := map[string]struct {
		in   *networking.HTTPMatchRequest
		want string
	}{
		"none":                   {nil, `{"prefix": "/"}`},
		"exact":                  {&networking.HTTPMatchRequest{Uri: exact("/a")}, `{"path": "/a"}`},
		"prefix":                 {&networking.HTTPMatchRequest{Uri: prefix("/a")}, `{"prefix": "/a"}`},
		"regex":                  {&networking.HTTPMatchRequest{Uri: regex("/a.*")}, `{"safeRegex": {"regex": "/a.*"}}`},
		"a header":               {headers("end-user", exact("jason")), `{"prefix": "/", "headers": [{"name": "end-user", "stringMatch": {"exact": "jason"}}]}`},
		"its prefix":             {headers("x", prefix("j")), `{"prefix": "/", "headers": [{"name": "x", "stringMatch": {"prefix": "j"}}]}`},
		"its regex":              {headers("x", regex("j.*")), `{"prefix": "/", "headers": [{"name": "x", "stringMatch": {"safeRegex": {"regex": "j.*"}}}]}`},
		"presence":               {headers("x", &networking.StringMatch{}), `{"prefix": "/", "headers": [{"name": "x", "presentMatch": true}]}`},
		"presence *":             {headers("x", regex("*")), `{"prefix": "/", "headers": [{"name": "x", "presentMatch": true}]}`},
		"a claim":                {headers("@request.auth.claims.a.b", exact("c")), claimOf(`{"key": "a"}, {"key": "b"}`, `"stringMatch": {"exact": "c"}`, "")},
		"in bracket":             {headers("@request.auth.claims[a.b][c]", prefix("d")), claimOf(`{"key": "a.b"}, {"key": "c"}`, `"stringMatch": {"prefix": "d"}`, "")},
		"its regular expression": {headers("@request.auth.claims.a", regex("b.*")), claimOf(`{"key": "a"}`, `"stringMatch": {"safeRegex": {"regex": "b.*"}}`, "")},
		"its presence":           {headers("@request.auth.claims.a", nil), `{"prefix": "/", "dynamicMetadata": [{"filter": "envoy.filters.http.jwt_authn", "path": [{"key": "payload"}, {"key": "a"}], "value": {"presentMatch": true}}]}`},
		"another claim": {
			&networking.HTTPMatchRequest{WithoutHeaders: map[string]*networking.StringMatch{"@request.auth.claims.a": exact("b")}},
			claimOf(`{"key": "a"}`, `"stringMatch": {"exact": "b"}`, `, "invert": true`),
		},
		"a claim at a sidecar": {headers("@request.auth.claims.a", exact("b")), neverMatched},
		"another claim at a sidecar": {
			&networking.HTTPMatchRequest{WithoutHeaders: map[string]*networking.StringMatch{"@request.auth.claims.a": exact("b")}}, neverMatched,
		},
		"sorted": {
			&networking.HTTPMatchRequest{Headers: map[string]*networking.StringMatch{"b": nil, "a": nil, "c": nil}},
			`{"prefix": "/", "headers": [{"name": "a", "presentMatch": true}, {"name": "b", "presentMatch": true}, {"name": "c", "presentMatch": true}]}`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			want := &routev3.RouteMatch{}
			if err := protojson.Unmarshal([]byte(test.want), want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, routeMatch(test.in, !strings.HasSuffix(name, "at a sidecar")), protocmp.Transform()); diff != "" {
				t.Errorf("match (-want +got):\n%s", diff)
			}
		})
	}
}

const neverMatched = `{"prefix": "/", "headers": [{"name": "x-claims-of-a-token", "presentMatch": true}, {"name": "x-claims-of-a-token", "presentMatch": true, "invertMatch": true}]}`

// claimOf is the match of a claim, in the list that it is or by itself.
func claimOf(path, value, rest string) string {
	return `{"prefix": "/", "dynamicMetadata": [{"filter": "envoy.filters.http.jwt_authn", "path": [{"key": "payload"}, ` + path + `],
		"value": {"orMatch": {"valueMatchers": [{"listMatch": {"oneOf": {` + value + `}}}, {` + value + `}]}}` + rest + `}]}`
}

func headers(name string, value *networking.StringMatch) *networking.HTTPMatchRequest {
	return &networking.HTTPMatchRequest{Headers: map[string]*networking.StringMatch{name: value}}
}

func TestRouteAction(t *testing.T) {
	host := fqdn("reviews")
	other := service("two.com", httpPort(80))
	other.Ports = append(other.Ports, model.Port{Name: "b", Number: 81, Protocol: model.HTTP})
	tests := map[string]struct {
		routes []*networking.HTTPRouteDestination
		want   map[string]uint32 // cluster → weight, 0 for the only one
	}{
		"one": {[]*networking.HTTPRouteDestination{to(host, "v1", 0)}, map[string]uint32{"outbound|9080|v1|" + host: 0}},
		"two": {
			[]*networking.HTTPRouteDestination{to(host, "v1", 80), to(host, "v2", 20)},
			map[string]uint32{"outbound|9080|v1|" + host: 80, "outbound|9080|v2|" + host: 20},
		},
		"zero is dropped": {
			[]*networking.HTTPRouteDestination{to(host, "v1", 100), to(host, "v2", 0)},
			map[string]uint32{"outbound|9080|v1|" + host: 0},
		},
		"all zero": {[]*networking.HTTPRouteDestination{to(host, "v1", 0), to(host, "v2", 0)}, nil},
		"its only port": {
			[]*networking.HTTPRouteDestination{to(fqdn("single"), "", 0)},
			map[string]uint32{"outbound|7||" + fqdn("single"): 0},
		},
		"the port asked": {[]*networking.HTTPRouteDestination{to("two.com", "", 0)}, map[string]uint32{"outbound|9080||two.com": 0}},
		"a port as chosen": {[]*networking.HTTPRouteDestination{{Destination: &networking.Destination{
			Host: host,
			Port: &networking.PortSelector{Number: 5},
		}}}, map[string]uint32{"outbound|5||" + host: 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := service(host, httpPort(9080))
			m := mesh(s, other, service(fqdn("single"), httpPort(7)), &networking.VirtualService{
				Hosts: []string{"reviews"}, Http: []*networking.HTTPRoute{{Name: "main", Route: test.routes}},
			})
			route := serviceRoutes(m, s)[0]
			if diff := cmp.Diff(test.want, clusters(route)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
			if test.want == nil && route.GetDirectResponse().GetStatus() != 503 {
				t.Errorf("got %v, want a 503", route.Action)
			}
		})
	}
}

func serviceRoutes(m *model.Mesh, s *model.Service) []*routev3.Route {
	scope := m.Scope("default", nil)
	r := router{scope: scope, gateway: model.MeshGateway, port: s.Ports[0].Number}
	return r.serviceRoutes(s.Host, ruleSpec(scope.Rule(0, s.Host)))
}

func clusters(route *routev3.Route) map[string]uint32 {
	if route.GetRoute() == nil {
		return nil
	}
	out := map[string]uint32{}
	for _, c := range route.GetRoute().GetWeightedClusters().GetClusters() {
		out[c.Name] = c.Weight.GetValue()
	}
	if c := route.GetRoute().GetCluster(); c != "" {
		out[c] = 0
	}
	return out
}

func TestRoutesKeepOrderTimeoutAndRetry(t *testing.T) {
	host := fqdn("reviews")
	s := service(host, httpPort(9080))
	rules := &networking.VirtualService{Hosts: []string{host}, Http: []*networking.HTTPRoute{
		{
			Name:    "first",
			Match:   []*networking.HTTPMatchRequest{{Uri: exact("/a")}, {Uri: exact("/b")}},
			Route:   []*networking.HTTPRouteDestination{to(host, "v1", 0)},
			Timeout: durationpb.New(3e9),
		},
		{Name: "rest", Route: []*networking.HTTPRouteDestination{to(host, "", 0)}},
	}}
	routes := serviceRoutes(mesh(s, rules), s)
	var got []string
	for _, r := range routes {
		got = append(got, r.Name+r.GetMatch().GetPath()+" "+r.GetRoute().GetTimeout().AsDuration().String())
		if retry := r.GetRoute().GetRetryPolicy(); retry.GetRetryOn() != retryOn || retry.GetNumRetries().GetValue() != 2 {
			t.Errorf("route %s: retry policy %v", r.Name, retry)
		}
		if r.GetRoute().Timeout == nil {
			t.Errorf("route %s leaves Envoy's 15 seconds", r.Name)
		}
	}
	if diff := cmp.Diff([]string{"first/a 3s", "first/b 3s", "rest 0s"}, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}
