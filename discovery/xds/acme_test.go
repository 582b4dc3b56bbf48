package xds

import (
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

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
