package xds

import (
	"maps"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// Requests for a host whose own server requires a client's certificate are answered 421 within the handshake of a wider server.
func TestRequestsOfAnotherServerAreMisdirected(t *testing.T) {
	server := func(name, protocol string, mode networking.ServerTLSSettings_TLSmode, hosts ...string) *networking.Server {
		return &networking.Server{
			Port: &networking.Port{Number: 8443, Name: name, Protocol: protocol}, Hosts: hosts,
			Tls: &networking.ServerTLSSettings{Mode: mode, ServerCertificate: "/c/" + name, PrivateKey: "/c/key", CaCertificates: "/c/ca"},
		}
	}
	const (
		simple, mutual, optional = networking.ServerTLSSettings_SIMPLE, networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL
		own                      = networking.ServerTLSSettings_ISTIO_MUTUAL
	)
	wide := server("wide", "HTTPS", simple, "*.test")
	same := server("b", "HTTPS", mutual, "*.test")
	twin := server("b", "HTTPS", mutual, "b.test")
	twin.Port.Name = "twin"
	for name, test := range map[string]struct {
		servers []*networking.Server
		want    string // the hosts that the server wide answers 421, and after / those that it routes
	}{
		"MUTUAL":                              {[]*networking.Server{wide, server("b", "HTTPS", mutual, "b.test")}, "b.test / a.test c.b.test"},
		"the narrower first":                  {[]*networking.Server{server("b", "HTTPS", mutual, "b.test"), wide}, "b.test / a.test c.b.test"},
		"ISTIO_MUTUAL":                        {[]*networking.Server{wide, server("b", "HTTPS", own, "b.test")}, "b.test / a.test c.b.test"},
		"in capitals":                         {[]*networking.Server{wide, server("b", "HTTPS", mutual, "*/B.Test")}, "b.test / a.test c.b.test"},
		"a wildcard":                          {[]*networking.Server{wide, server("b", "HTTPS", mutual, "*.b.test")}, "*.b.test / a.test b.test"},
		"a wildcard, of which one is its own": {[]*networking.Server{server("wide", "HTTPS", simple, "*.test", "c.b.test"), server("b", "HTTPS", mutual, "*.b.test")}, "*.b.test / a.test b.test c.b.test"},
		"every host":                          {[]*networking.Server{server("wide", "HTTPS", simple, "*"), server("b", "HTTPS", mutual, "*.b.test", "b.test")}, "*.b.test b.test / a.test"},
		"one of three":                        {[]*networking.Server{wide, server("a", "HTTPS", simple, "a.test"), server("b", "HTTPS", mutual, "b.test")}, "b.test / a.test c.b.test"},
		"below one without":                   {[]*networking.Server{wide, server("b", "HTTPS", mutual, "*.b.test"), server("c", "HTTPS", simple, "c.b.test")}, "*.b.test / a.test b.test c.b.test"},
		"OPTIONAL_MUTUAL":                     {[]*networking.Server{wide, server("b", "HTTPS", optional, "b.test")}, " / a.test b.test c.b.test"},
		"SIMPLE":                              {[]*networking.Server{wide, server("b", "HTTPS", simple, "b.test")}, " / a.test b.test c.b.test"},
		"no wider one":                        {[]*networking.Server{server("wide", "HTTPS", simple, "a.test"), server("b", "HTTPS", mutual, "b.test")}, " / a.test"},
		"the same settings":                   {[]*networking.Server{same, twin}, " / a.test b.test c.b.test"},
		"the same host, which is its own":     {[]*networking.Server{server("wide", "HTTPS", simple, "b.test"), server("b", "HTTPS", mutual, "b.test")}, " / b.test"},
		"TLS of TCP":                          {[]*networking.Server{wide, server("b", "TLS", mutual, "b.test")}, "b.test / a.test c.b.test"},
		"another port":                        {[]*networking.Server{wide, {Port: &networking.Port{Number: 9443, Name: "b", Protocol: "HTTPS"}, Hosts: []string{"b.test"}, Tls: twin.Tls}}, " / a.test b.test c.b.test"},
	} {
		p, err := ParseProxy(envoyNode(t, "router~10.0.0.1~gw.default~"+clusterDomain, map[string]any{"NAMESPACE": "default", "LABELS": map[string]any{"gateway": "gw"}}))
		if err != nil {
			t.Fatal(err)
		}
		gateway := &networking.Gateway{Selector: map[string]string{"gateway": "gw"}, Servers: test.servers}
		r := Build(mesh(gateway, service(fqdn("app"), httpPort(80), at("10.0.0.2", "v1")), &networking.VirtualService{
			Hosts: []string{"a.test", "b.test", "c.b.test"}, Gateways: []string{"default/000"}, Http: []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{to("app", "", 0)}}},
		}), ViewOf(p))
		refused, routed := map[string]bool{}, map[string]bool{}
		for _, c := range r.Routes {
			if !strings.HasPrefix(c.Name, "https.8443.wide") && !strings.HasPrefix(c.Name, "https.8443.b.") || strings.HasPrefix(c.Name, "https.8443.b.") && test.servers[0] != same {
				continue
			}
			for _, h := range c.VirtualHosts {
				for _, d := range h.Domains {
					if len(h.Routes) == 1 && h.Routes[0].GetDirectResponse().GetStatus() == 421 {
						refused[d] = true
					} else if len(h.Routes) > 0 {
						routed[d] = true
					}
				}
			}
		}
		names := func(m map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }
		if got := names(refused) + " / " + names(routed); got != test.want {
			t.Errorf("%s: 421 and routed: %q, want %q", name, got, test.want)
		}
	}
}
