package xds

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func externalName(host, target string, port model.Port) *model.Service {
	s := service(host, port, model.Endpoint{Address: target})
	s.Registry, s.External, s.Resolution, s.ExternalName = "Kubernetes", true, model.ResolutionDNS, target
	return s
}

// clustersOf returns the names of the outbound clusters.
func clustersOf(r *Resources) (out []string) {
	for _, c := range r.Clusters {
		if name := (*clusterv3.Cluster).GetName(c); strings.HasPrefix(name, "outbound|") {
			out = append(out, name)
		}
	}
	return out
}

// Requests for another name of a service follow the service's rules, but those for a name with rules of its own; the
// name has no cluster. A name that leads out of the mesh has one.
func TestExternalNames(t *testing.T) {
	port := httpPort(80)
	target, same, ruled, outside := fqdn("reviews"), fqdn("alias"), fqdn("ruled"), fqdn("outside")
	headers := func(host, value string) *networking.VirtualService {
		return &networking.VirtualService{Hosts: []string{host}, Http: []*networking.HTTPRoute{{
			Headers: &networking.Headers{Request: &networking.Headers_HeaderOperations{Set: map[string]string{"x": value}}},
			Route:   []*networking.HTTPRouteDestination{to(same, "v1", 0)},
		}}}
	}
	parts := []any{
		service(target, port, at("10.0.0.1", "v1")), externalName(same, target, port), externalName(ruled, same, port),
		externalName(outside, "example.com", port), versions(target), headers(target, "target"), headers(ruled, "own"),
	}
	r := Build(mesh(parts...), viewAt(t, "sidecar~10.0.0.9~app.default~"+clusterDomain))
	want := []string{"outbound|80|v1|" + target, "outbound|80|v2|" + target, "outbound|80||" + outside, "outbound|80||" + target}
	got := clustersOf(r)
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("clusters are %v, want %v", got, want)
	}
	hosts := map[string]string{}
	for _, h := range served(t, r.Routes, "80").VirtualHosts {
		for _, d := range h.Domains {
			hosts[d] = h.Name
		}
		if action := h.Routes[0].GetRoute(); strings.HasPrefix(h.Name, "reviews.") || strings.HasPrefix(h.Name, "ruled.") {
			value := h.Routes[0].RequestHeadersToAdd[0].Header.Value
			if want := map[bool]string{true: "target", false: "own"}[strings.HasPrefix(h.Name, "reviews.")]; value != want || action.GetCluster() != "outbound|80|v1|"+target {
				t.Errorf("%s: sets %s and goes to %s", h.Name, value, action.GetCluster())
			}
		}
	}
	for domain, host := range map[string]string{
		target: target, "reviews": target, same: target, "alias": target, "alias.default": target, ruled: ruled, "ruled": ruled, outside: outside,
	} {
		if hosts[domain] != host+":80" {
			t.Errorf("%s belongs to %s, want %s", domain, hosts[domain], host)
		}
	}
}

// Bytes go to the address that the name resolves to, TLS by its server name; DNS answers for the name, and gRPC clients
// ask for it.
func TestExternalNamesOfOtherProtocols(t *testing.T) {
	tls, tcp := model.Port{Name: "tls", Number: 443, Protocol: model.TLS}, model.Port{Name: "tcp", Number: 9000, Protocol: model.TCP}
	db := service(fqdn("db"), tcp, at("10.0.0.1", "v1"))
	db.Addresses = []string{"10.96.0.1"}
	web := service(fqdn("web"), httpPort(80), at("10.0.0.3", "v1"))
	m := mesh(db, externalName(fqdn("database"), fqdn("db"), tcp), service(fqdn("secure"), tls, at("10.0.0.2", "v1")),
		externalName(fqdn("alias"), fqdn("secure"), tls), web, externalName(fqdn("site"), fqdn("web"), httpPort(80)))
	v := viewAt(t, "sidecar~10.0.0.9~app.default~"+clusterDomain)
	r := Build(m, v)
	var listeners, servers []string
	for _, l := range r.Listeners {
		listeners = append(listeners, l.Name)
		for _, c := range l.FilterChains {
			servers = append(servers, c.GetFilterChainMatch().GetServerNames()...)
		}
	}
	for name, want := range map[string]bool{"10.96.0.1_9000": true, "0.0.0.0_9000": false, "0.0.0.0_443": true} {
		if slices.Contains(listeners, name) != want {
			t.Errorf("listener %s: %t, want %t", name, !want, want)
		}
	}
	if got, want := strings.Join(servers, " "), "secure."+clusterDomain+" alias."+clusterDomain+" alias.default.svc alias.default alias"; got != want {
		t.Errorf("server names are %q, want %q", got, want)
	}
	names := BuildOutbound(m, v.Outbound).Names(v.Outbound)
	i := slices.IndexFunc(names, func(n Name) bool { return n.Host == fqdn("database") })
	if i < 0 || !slices.Equal(names[i].Addresses, db.Addresses) || names[i].Service != "database" {
		t.Errorf("DNS answers %+v", names)
	}
	grpc := v.Outbound
	grpc.Proxyless = true
	listeners = nil
	for _, l := range buildProxyless(m, grpc).Listeners {
		listeners = append(listeners, l.Name)
	}
	for _, name := range []string{fqdn("site") + ":80", "site:80", fqdn("web") + ":80"} {
		if !slices.Contains(listeners, name) {
			t.Errorf("gRPC clients have no %s, but %v", name, listeners)
		}
	}
}
