package xds

import (
	"maps"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// An issuer's question about a.test is answered before all routes and redirections of port 80, at the gateways of one namespace, and
// no request for another path is led elsewhere than before.
func TestAnswersToIssuers(t *testing.T) {
	const rule = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: front, namespace: shop}
spec: {hosts: [HOSTS], gateways: [front], http: [{name: app, directResponse: {status: 204}}]}
`
	for name, test := range map[string]struct {
		server, hosts string // of port 80, and of the rule
		namespace     string
		want          []string // virtual hosts with their routes; "all" where each request is redirected before routes
	}{
		"a host":                {`{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.test]}`, "a.test", "edge", []string{"a.test: acme-challenge app"}},
		"a redirection":         {`{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.test], tls: {httpsRedirect: true}}`, "a.test", "edge", []string{"a.test: acme-challenge https-redirect app"}},
		"a redirection alone":   {`{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.test, b.test], tls: {httpsRedirect: true}}`, "c.test", "edge", []string{"a.test: acme-challenge https-redirect", "b.test: all"}},
		"nothing but the host":  {`{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.test]}`, "c.test", "edge", []string{"a.test: acme-challenge"}},
		"a wildcard":            {`{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}`, `"*.test"`, "edge", []string{"*.test: acme-challenge app"}},
		"every host":            {`{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}`, `"*"`, "edge", []string{"*: acme-challenge app"}},
		"the narrower wildcard": {`{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}`, `"*", "*.test"`, "edge", []string{"*.test: acme-challenge app", "*: app"}},
		"another namespace":     {`{port: {number: 80, name: http, protocol: HTTP}, hosts: [a.test]}`, "a.test", "rim", []string{"a.test: app"}},
		"another port":          {`{port: {number: 81, name: http, protocol: HTTP}, hosts: [a.test]}`, "a.test", "edge", []string{"a.test: app"}},
		"another host":          {`{port: {number: 80, name: http, protocol: HTTP}, hosts: [b.test]}`, "b.test", "edge", []string{"b.test: app"}},
	} {
		t.Run(name, func(t *testing.T) {
			gateway := "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: front, namespace: shop}\nspec: {selector: {app: gateway}, servers: [" + test.server + "]}\n---"
			objects, problems := config.Decode("front.yaml", []byte(gateway+strings.Replace(rule, "HOSTS", test.hosts, 1)))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			m := model.New(slices.Values([]model.Group{{Objects: append(objects, model.Challenge("edge", "a.test", "TOKEN", "TOKEN.print"))}}))
			view := ViewOf(Proxy{
				ID:       node.ID{Role: node.Router, IP: "10.0.0.1", Name: "gw-1." + test.namespace, Domain: test.namespace + ".svc.cluster.local"},
				Metadata: node.Metadata{Namespace: test.namespace, Labels: map[string]string{"app": "gateway"}, Extra: map[string]any{}},
			})
			view.Outbound = view.Outbound.In(m)
			r := Build(m, view)
			var got []string
			for _, h := range r.Routes[0].VirtualHosts {
				text := strings.Join(h.Domains, ",") + ":"
				for _, route := range h.Routes {
					text += " " + route.Name
				}
				if h.RequireTls == routev3.VirtualHost_ALL {
					text += " all"
				}
				got = append(got, text)
			}
			if slices.Sort(got); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			validate(t, r)
		})
	}
}

// A server that names an issuer asks for the certificate of its own, and keeps its name when its hosts change.
func TestCertificateOfAnIssuer(t *testing.T) {
	objects, problems := config.Decode("front.yaml", []byte(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: front, namespace: shop}
spec:
  selector: {app: gateway}
  servers:
  - {port: {number: 443, name: one, protocol: HTTPS}, hosts: [a.test], tls: {mode: SIMPLE, credentialName: "acme://lets"}}
  - {port: {number: 443, name: two, protocol: HTTPS}, hosts: [b.test], tls: {mode: SIMPLE, credentialName: "acme://lets"}}
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := model.New(slices.Values([]model.Group{{Objects: objects}}))
	view := ViewOf(Proxy{
		ID:       node.ID{Role: node.Router, IP: "10.0.0.1", Name: "gw-1.edge", Domain: "edge.svc.cluster.local"},
		Metadata: node.Metadata{Namespace: "edge", Labels: map[string]string{"app": "gateway"}, Extra: map[string]any{}},
	})
	view.Outbound = view.Outbound.In(m)
	if got, want := SecretNames(Build(m, view)), []string{"acme://lets/shop/front/one", "acme://lets/shop/front/two"}; !slices.Equal(got, want) {
		t.Errorf("it asks for %q, want %q", got, want)
	}
}

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

// httpsRedirect counts for the routes of its Gateway, and for hosts that no other Gateway has.
func TestARedirectionIsOfItsGateway(t *testing.T) {
	gateway := func(namespace, host string, redirect bool) *model.Object {
		return &model.Object{Meta: model.Meta{Kind: "Gateway", Namespace: namespace, Name: "g"}, Spec: &networking.Gateway{
			Servers: []*networking.Server{{
				Port: &networking.Port{Number: 80, Protocol: "HTTP", Name: "http"}, Hosts: []string{host}, Tls: &networking.ServerTLSSettings{HttpsRedirect: redirect},
			}},
		}}
	}
	rule := func(namespace, host string) *model.Object {
		return &model.Object{Meta: model.Meta{Kind: "VirtualService", Namespace: namespace, Name: "v"}, Spec: &networking.VirtualService{
			Hosts: []string{host}, Gateways: []string{"g"}, Http: []*networking.HTTPRoute{{
				Match: []*networking.HTTPMatchRequest{{Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: "/" + namespace}}}}, Name: namespace,
				DirectResponse: &networking.HTTPDirectResponse{Status: 200},
			}},
		}}
	}
	everywhere := func(o *model.Object) *model.Object { // the same address as without one
		o.Spec.(*networking.Gateway).Servers[0].Bind = "0.0.0.0"
		return o
	}
	const pay = "pay.test"
	for name, tt := range map[string]struct {
		objects []*model.Object
		want    string // virtual hosts with their routes; "all" where each request is redirected, "→" before a route that redirects
		noted   bool   // that the redirection does not count for the host as a whole
	}{
		"alone":                    {[]*model.Object{gateway("bank", pay, true), rule("bank", pay)}, "pay.test: bank all", false},
		"alone, without routes":    {[]*model.Object{gateway("bank", pay, true)}, "pay.test: all", false},
		"a tenant's":               {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), gateway("evil", pay, true)}, "pay.test: bank", true},
		"for its own namespace":    {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), gateway("evil", "evil/pay.test", true)}, "pay.test: bank", true},
		"at 0.0.0.0":               {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), everywhere(gateway("evil", pay, true))}, "pay.test: bank", true},
		"in capitals":              {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), gateway("evil", "PAY.test", true)}, "pay.test: bank", true},
		"with routes":              {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), gateway("evil", pay, true), rule("evil", pay)}, "pay.test: bank →evil", true},
		"of a wildcard's host":     {[]*model.Object{gateway("bank", "*.test", false), rule("bank", pay), gateway("evil", pay, true)}, "pay.test: bank", true},
		"a host without routes":    {[]*model.Object{gateway("bank", pay, false), gateway("evil", pay, true)}, "", true},
		"a wildcard":               {[]*model.Object{gateway("bank", pay, false), rule("bank", pay), gateway("evil", "*.test", true)}, "*.test: all, pay.test: bank", false},
		"both redirect":            {[]*model.Object{gateway("bank", pay, true), rule("bank", pay), gateway("evil", pay, true)}, "pay.test: bank all", false},
		"below another's wildcard": {[]*model.Object{gateway("shared", "*", false), gateway("bank", pay, true)}, "pay.test: all", false},
	} {
		t.Run(name, func(t *testing.T) {
			mesh := model.New(slices.Values([]model.Group{{Objects: tt.objects}}))
			noted := slices.ContainsFunc(mesh.Notes(), func(n model.Note) bool {
				return strings.HasPrefix(n.Message, "Gateway bank/g has pay.test at port 80 too and does not redirect: ") && n.Code == model.Conflict && n.Path == "spec.servers[0].tls.httpsRedirect" && n.Meta.Namespace == "evil" && n.Other.Namespace == "bank"
			})
			if noted != tt.noted {
				t.Errorf("it is noted: %t, want %t: %v", noted, tt.noted, mesh.Notes())
			}
			r := Build(mesh, ViewOf(proxies()["router"]))
			var got []string
			for _, config := range r.Routes {
				for _, h := range config.VirtualHosts {
					text := strings.Join(h.Domains, ",") + ":"
					for _, route := range h.Routes {
						mark := ""
						if route.GetRedirect() != nil {
							mark = "→"
						}
						text += " " + mark + route.Name
					}
					if h.RequireTls == routev3.VirtualHost_ALL {
						text += " all"
					}
					got = append(got, text)
				}
			}
			slices.Sort(got)
			if text := strings.Join(got, ", "); text != tt.want {
				t.Errorf("got %q, want %q", text, tt.want)
			}
			validate(t, r)
		})
	}
}
