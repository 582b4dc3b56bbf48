package xds

import (
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Traffic to a service's own address is for that service: TLS with any SNI, and HTTP to a port without a protocol with
// any host. Without an own address, both must name the service.
func TestAnAddressOfItsOwn(t *testing.T) {
	tls := service("tls.test", model.Port{Name: "tls", Number: 443, Protocol: model.TLS}, at("10.0.0.2", "v1"))
	anything := service("any.test", model.Port{Name: "any", Number: 7000}, at("10.0.0.3", "v1"))
	rule := &networking.VirtualService{Hosts: []string{"tls.test"}, Tls: []*networking.TLSRoute{{
		Match: []*networking.TLSMatchAttributes{{SniHosts: []string{"other.test"}}},
		Route: []*networking.RouteDestination{{Destination: &networking.Destination{Host: "tls.test"}}},
	}}}
	for name, test := range map[string]struct {
		service     *model.Service
		address     string
		rule        any
		listener    string
		servers     string // server names in the filter chains
		fallback    string // cluster for connections that no chain matches
		route, host string // of the first virtual host
	}{
		"TLS": {tls, "10.96.0.1", nil, "10.96.0.1_443", "", "outbound|443||tls.test", "", ""},
		"TLS, with a rule": {
			tls, "10.96.0.1", rule, "10.96.0.1_443", "other.test tls.test", "PassthroughCluster", "", "",
		},
		"TLS, no address": {tls, "", nil, "0.0.0.0_443", "tls.test", "PassthroughCluster", "", ""},
		"no protocol":     {anything, "10.96.0.1", nil, "10.96.0.1_7000", "", "outbound|7000||any.test", "any.test:7000", "*"},
		"no protocol, no address": {
			anything, "", nil, "0.0.0.0_7000", "", "PassthroughCluster", "7000", "any.test",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := *test.service
			if test.address != "" {
				s.Addresses = []string{test.address}
			}
			parts := []any{&s}
			if test.rule != nil {
				parts = append(parts, test.rule)
			}
			r := Build(mesh(parts...), viewAt(t, "sidecar~10.0.0.9~app.default~"+clusterDomain))
			i := slices.IndexFunc(r.Listeners, func(l *listenerv3.Listener) bool { return l.Name == test.listener })
			if i < 0 {
				t.Fatalf("there is no listener %s", test.listener)
			}
			l := r.Listeners[i]
			var servers []string
			for _, c := range l.FilterChains {
				servers = append(servers, c.FilterChainMatch.ServerNames...)
				manager := &hcmv3.HttpConnectionManager{}
				if c.Filters[0].GetTypedConfig().UnmarshalTo(manager) == nil && manager.GetRds().GetRouteConfigName() != test.route {
					t.Errorf("HTTP is routed by %s, want %s", manager.GetRds().GetRouteConfigName(), test.route)
				}
			}
			if got := strings.Join(servers, " "); got != test.servers {
				t.Errorf("chains ask for %q, want %q", got, test.servers)
			}
			proxy := &tcpproxyv3.TcpProxy{}
			if err := l.DefaultFilterChain.Filters[0].GetTypedConfig().UnmarshalTo(proxy); err != nil || proxy.GetCluster() != test.fallback {
				t.Errorf("all else goes to %s, %v; want %s", proxy.GetCluster(), err, test.fallback)
			}
			if test.route != "" {
				hosts := served(t, r.Routes, test.route).VirtualHosts
				if hosts[0].Domains[0] != test.host || hosts[0].Name != "any.test:7000" || test.host == "*" && len(hosts) > 1 {
					t.Errorf("virtual hosts are %v, want the service at %s", hosts, test.host)
				}
			}
		})
	}
}

// A redirect leaves out the default port of its scheme, which is the client's scheme if the redirect sets none.
func TestRedirectPort(t *testing.T) {
	to := func(port uint32) *networking.HTTPRedirect_Port { return &networking.HTTPRedirect_Port{Port: port} }
	request := &networking.HTTPRedirect_DerivePort{DerivePort: networking.HTTPRedirect_FROM_REQUEST_PORT}
	for name, test := range map[string]struct {
		router   router
		redirect *networking.HTTPRedirect
		want     uint32
	}{
		"none":                      {router{port: 8080}, &networking.HTTPRedirect{Scheme: "https"}, 0},
		"443 of https":              {router{port: 80}, &networking.HTTPRedirect{Scheme: "https", RedirectPort: to(443)}, 0},
		"443 of http":               {router{port: 80}, &networking.HTTPRedirect{RedirectPort: to(443)}, 443},
		"443 of an encrypted port":  {router{port: 443, encrypted: true}, &networking.HTTPRedirect{RedirectPort: to(443)}, 0},
		"80 of an encrypted port":   {router{port: 443, encrypted: true}, &networking.HTTPRedirect{RedirectPort: to(80)}, 80},
		"80 of http":                {router{port: 8080}, &networking.HTTPRedirect{Scheme: "http", RedirectPort: to(80)}, 0},
		"another":                   {router{port: 80}, &networking.HTTPRedirect{Scheme: "https", RedirectPort: to(8443)}, 8443},
		"the request's":             {router{port: 8080}, &networking.HTTPRedirect{RedirectPort: request}, 8080},
		"the request's is default":  {router{port: 80}, &networking.HTTPRedirect{RedirectPort: request}, 0},
		"the default of the scheme": {router{port: 8080}, &networking.HTTPRedirect{Scheme: "https", RedirectPort: &networking.HTTPRedirect_DerivePort{}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.router.redirect(test.redirect).PortRedirect; got != test.want {
				t.Errorf("port_redirect is %d, want %d", got, test.want)
			}
		})
	}
}
