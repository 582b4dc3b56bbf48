package xds

import (
	"fmt"
	"runtime"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// ruled is a mesh of services, each with a rule of three routes and four matches.
func ruled(services int) (*model.Mesh, []*networking.VirtualService) {
	var parts []any
	var rules []*networking.VirtualService
	for i := range services {
		host := fqdn(fmt.Sprintf("s%d", i))
		rule := &networking.VirtualService{Hosts: []string{host}, Http: []*networking.HTTPRoute{
			{
				Name:  "first",
				Match: []*networking.HTTPMatchRequest{{Uri: exact("/a")}, {Uri: prefix("/b"), SourceNamespace: "elsewhere"}, {Uri: prefix("/c")}},
				Route: []*networking.HTTPRouteDestination{to(host, "v1", 100)},
			},
			{Match: []*networking.HTTPMatchRequest{{Uri: prefix("/d")}}, Route: []*networking.HTTPRouteDestination{to(host, "v2", 100)}},
			{Route: []*networking.HTTPRouteDestination{to(host, "v1", 90), to(host, "v2", 10)}},
		}}
		rules = append(rules, rule)
		parts = append(parts, service(host, httpPort(9080), at("10.0.0.1", "v1"), at("10.0.0.2", "v2")), versions(host), rule)
	}
	return mesh(parts...), rules
}

// Places cost a push nothing: translation allocates as many values as a loop that knows no places.
func TestOriginsCostAPushNothing(t *testing.T) {
	m, rules := ruled(1)
	r := router{scope: m.Scope("default", nil), gateway: model.MeshGateway, port: 9080}
	var out []*routev3.Route
	without := testing.AllocsPerRun(100, func() {
		out = nil
		for _, http := range rules[0].Http {
			matches := http.Match
			if len(matches) == 0 {
				matches = []*networking.HTTPMatchRequest{nil}
			}
			for _, match := range matches {
				if match == nil || r.applies(match) {
					out = append(out, r.route(http, match))
				}
			}
		}
	})
	routes := len(out)
	with := testing.AllocsPerRun(100, func() { out = r.routes(rules[0]) })
	if routes != 4 || len(out) != routes || with > without {
		t.Errorf("%d routes are made with %.0f allocations, want %d with %.0f", len(out), with, routes, without)
	}
	t.Logf("%d routes: %.0f allocations with places, %.0f without", routes, with, without)
}

// A question for origins leaves nothing behind, in the resources or in the mesh.
func TestOriginsKeepNothing(t *testing.T) {
	const services = 200
	m, _ := ruled(services)
	v := ViewOf(proxies()["redirect"]).Outbound
	r := BuildOutbound(m, v)
	held := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	places := 0
	ask := func() {
		o := OriginsOf(m, v, r)
		for _, c := range r.Routes {
			for _, h := range c.VirtualHosts {
				places += len(o.Host(c.Name, h.Name).By)
				made := o.Routes(c.Name, h.Name)
				for i := range h.Routes {
					places += len(made(i))
				}
			}
		}
		for _, l := range r.Listeners { // each makes the parts of a listener again
			places += len(o.Listener(l.Name).By)
		}
		for _, c := range r.Clusters {
			places += len(o.Cluster(c.Name).By) + len(o.TLS(c.Name)) + len(o.Endpoint(c.Name, "10.0.0.1"))
		}
	}
	before := held()
	ask()
	after := held()
	runtime.KeepAlive(r)
	runtime.KeepAlive(m)
	if places < 7*services {
		t.Errorf("only %d places are known", places)
	}
	if kept := int64(after) - int64(before); kept > 16*services {
		t.Errorf("%d bytes are kept for %d places", kept, places)
	}
	t.Logf("%d places, %d bytes kept", places, int64(after)-int64(before))
}
