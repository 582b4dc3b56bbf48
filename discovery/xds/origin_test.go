package xds

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Every route of a rule that a proxy is served has its place, in each scenario: the HTTP route there is the one from which it was made.
func TestOriginsOfScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenario/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	ruled := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(data), "\n")
		proxy, settings := scenarioProxy(t, strings.TrimPrefix(first, "# "))
		objects, _ := config.Decode(file, data)
		m := model.New(slices.Values([]model.Group{{Objects: append(objects, settings...)}}))
		v := ViewOf(proxy).Outbound
		r := BuildOutbound(m, v)
		o := OriginsOf(m, v, r)
		for _, c := range r.Routes {
			for _, h := range c.VirtualHosts {
				made := o.Routes(c.Name, h.Name)
				for i, route := range h.Routes {
					for _, p := range made(i) {
						rule, ok := specOf(objects, p.Meta).(*networking.VirtualService)
						if !ok {
							continue
						}
						ruled++
						made := ruleAt(t, rule, p.Path)
						if name := strings.SplitN(route.Name, ".", 2)[0]; made.Name != "" && !strings.Contains(name, made.Name) {
							t.Errorf("%s: route %d of %s in %s is %q, its place %s of %s has the name %q", file, i, h.Name, c.Name, route.Name, p.Path, p.Meta.Key(), made.Name)
						}
						if route.GetDirectResponse() != nil && made.DirectResponse == nil && len(made.Route) > 1 || (route.GetRedirect() != nil) != (made.Redirect != nil) {
							t.Errorf("%s: route %d of %s in %s is %v, its place %s of %s %v", file, i, h.Name, c.Name, route, p.Path, p.Meta.Key(), made)
						}
						if p.Line() <= p.Meta.Origin.Line-1 {
							t.Errorf("%s: %s of %s is at line %d, want one of the object at %d", file, p.Path, p.Meta.Key(), p.Line(), p.Meta.Origin.Line)
						}
					}
				}
				if made := o.Host(c.Name, h.Name); len(made.By) == 0 && made.Unmade == "" {
					t.Errorf("%s: nobody made %s of %s", file, h.Name, c.Name)
				}
			}
		}
		for _, l := range r.Listeners {
			if made := o.Listener(l.Name); len(made.By) == 0 && made.Unmade == "" {
				t.Errorf("%s: nobody made the listener %s", file, l.Name)
			}
			for _, c := range append(slices.Clone(l.FilterChains), l.DefaultFilterChain) {
				if made := o.Chain(l.Name, c); c != nil && len(made.By) == 0 && made.Unmade == "" {
					t.Errorf("%s: nobody made the filter chain %v of %s", file, c, l.Name)
				}
			}
		}
		for _, c := range r.Clusters {
			if strings.HasPrefix(c.Name, "outbound|") {
				if len(o.Cluster(c.Name).By) > 0 {
					continue
				}
				t.Errorf("%s: nobody made %s", file, c.Name)
			}
		}
	}
	if ruled < 50 {
		t.Errorf("only %d routes of rules were seen", ruled)
	}
	t.Logf("%d routes of rules", ruled)
}

func specOf(objects []*model.Object, m model.Meta) any {
	for _, o := range objects {
		if o.Key() == m.Key() {
			return o.Spec
		}
	}
	return nil
}

// ruleAt returns the HTTP route at a path such as spec.http[2].match[0].
func ruleAt(t *testing.T, rule *networking.VirtualService, path string) *networking.HTTPRoute {
	t.Helper()
	for i, http := range rule.Http {
		if at := strings.TrimPrefix(path, "spec.http["); strings.HasPrefix(at, string(rune('0'+i%10))+"]") && i < 10 || strings.HasPrefix(at, string(rune('0'+i/10))+string(rune('0'+i%10))+"]") {
			return http
		}
	}
	t.Fatalf("no route at %s", path)
	return nil
}

// A route that a delegate has is of the delegate, and one behind matches of other proxies is counted as the object counts it.
func TestOriginsOfRoutes(t *testing.T) {
	text := `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a}
spec:
  hosts: [a.test]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints:
  - address: 10.0.0.1
  - address: 10.0.0.2
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a}
spec: {host: a.test, trafficPolicy: {loadBalancer: {simple: RANDOM}}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: root}
spec:
  hosts: [a.test]
  http:
  - match:
    - sourceNamespace: elsewhere
    - uri: {prefix: /own}
    route: [{destination: {host: a.test}}]
  - match: [{uri: {prefix: /child}}]
    delegate: {name: child}
  - route: [{destination: {host: a.test}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: child}
spec:
  http:
  - match: [{uri: {prefix: /child/one}}]
    route: [{destination: {host: a.test}}]
  - redirect: {uri: /}
`
	objects, problems := config.Decode("mesh.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := model.New(slices.Values([]model.Group{{Objects: objects}}))
	v := ViewOf(proxies()["redirect"]).Outbound
	o := OriginsOf(m, v, BuildOutbound(m, v))
	for i, want := range []struct {
		object, path string
		line         int
	}{
		{"root", "spec.http[0].match[1]", 26}, {"child", "spec.http[0]", 37}, {"child", "spec.http[1]", 39}, {"root", "spec.http[2]", 30},
	} {
		got := o.Routes("80", "a.test:80")(i)
		if len(got) != 1 || got[0].Meta.Name != want.object || got[0].Path != want.path || got[0].Line() != want.line {
			t.Errorf("route %d is of %+v, want %v", i, got, want)
		}
	}
	names := func(places []model.Place) (out string) {
		for _, p := range places {
			out += " " + p.Meta.Kind + p.Path
		}
		return out
	}
	host := func(name string) []model.Place { return o.Host("80", name).By }
	cluster := func(name string) []model.Place { return o.Cluster(name).By }
	for what, row := range map[string]struct {
		got  []model.Place
		want string
	}{
		"the host":         {host("a.test:80"), " VirtualService ServiceEntry"},
		"the cluster":      {cluster("outbound|80||a.test"), " ServiceEntry DestinationRule"},
		"an endpoint":      {o.Endpoint("outbound|80||a.test", "10.0.0.2"), " ServiceEntryspec.endpoints[1]"},
		"another cluster":  {cluster("PassthroughCluster"), ""},
		"an absent host":   {host("b.test:80"), ""},
		"the host of rest": {host("allow_any"), ""},
	} {
		if got := names(row.got); got != row.want {
			t.Errorf("%s is of%s, want%s", what, got, row.want)
		}
	}
}

const listenedObjects = `
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: a}, spec: {hosts: [a.test], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: many}, spec: {hosts: [b.test, c.test, d.test, e.test], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}}
---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: tcp}, spec: {hosts: [tcp.test], addresses: [10.1.0.1], ports: [{number: 90, name: tcp, protocol: TCP}, {number: 443, name: tls, protocol: TLS}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: tcp}
spec:
  hosts: [tcp.test]
  tcp: [{match: [{port: 91}], route: [{destination: {host: a.test}}]}, {match: [{port: 90}], route: [{destination: {host: tcp.test, port: {number: 90}}, weight: 80}, {destination: {host: a.test}, weight: 20}]}]
  tls: [{match: [{port: 443, sniHosts: [tcp.test]}], route: [{destination: {host: tcp.test, port: {number: 443}}}]}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  selector: {gateway: gw}
  servers:
  - {port: {number: 8080, name: http, protocol: HTTP}, hosts: ["*.test"]}
  - {port: {number: 8443, name: pass, protocol: TLS}, hosts: [tcp.test], tls: {mode: PASSTHROUGH}}
  - {port: {number: 8444, name: none, protocol: TLS}, hosts: [none.test], tls: {mode: PASSTHROUGH}}
  - {port: {number: 8445, name: auto, protocol: TLS}, hosts: ["*.test"], tls: {mode: AUTO_PASSTHROUGH}}
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: web}, spec: {hosts: [a.test], gateways: [gw], http: [{route: [{destination: {host: a.test}}]}]}}
---
{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: pass}, spec: {hosts: [tcp.test], gateways: [gw], tls: [{match: [{sniHosts: [tcp.test]}], route: [{destination: {host: tcp.test, port: {number: 443}}}]}]}}
`

// What made a listener and each of its filter chains is the object, and the route, of which they were made.
func TestOriginsOfListeners(t *testing.T) {
	const declared = "---\n{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: own}, spec: {egress: [{port: {number: 99, name: x, protocol: TCP}, hosts: ['*/*']}, {hosts: ['*/*']}], outboundTrafficPolicy: {mode: REGISTRY_ONLY}}}\n"
	for proxy, rows := range map[string]map[string]string{
		"redirect": {
			"0.0.0.0_80":      "ServiceEntry a, ServiceEntry many and 2 more | HTTP: ServiceEntry a, ServiceEntry many and 2 more | bytes: no object: " + byDefault,
			"10.1.0.1_90":     "ServiceEntry tcp | bytes: VirtualService tcp spec.tcp[1], ServiceEntry tcp",
			"10.1.0.1_443":    "ServiceEntry tcp | bytes: VirtualService tcp spec.tls[0], ServiceEntry tcp | bytes: no object: " + byDefault,
			"virtualOutbound": "no object: " + forEachProxy + " | bytes: no object: " + againstCircles + " | bytes: no object: " + byDefault,
		},
		"redirect, Sidecar": {
			"0.0.0.0_99": "Sidecar own spec.egress[0] | bytes: Sidecar own spec.outboundTrafficPolicy",
			"0.0.0.0_80": "ServiceEntry a, ServiceEntry many and 2 more | HTTP: ServiceEntry a, ServiceEntry many and 2 more | bytes: Sidecar own spec.outboundTrafficPolicy",
		},
		"gateway": {
			"0.0.0.0_8080": "Gateway gw spec.servers[0] | HTTP: Gateway gw spec.servers[0]",
			"0.0.0.0_8443": "Gateway gw spec.servers[1] | bytes: VirtualService pass spec.tls[0], Gateway gw spec.servers[1]",
			"0.0.0.0_8444": "Gateway gw spec.servers[2] | bytes: no object: " + withoutARule,
			"0.0.0.0_8445": "Gateway gw spec.servers[3] | bytes: Gateway gw spec.servers[3]",
		},
	} {
		text := listenedObjects
		name, sidecar := strings.CutSuffix(proxy, ", Sidecar")
		if sidecar {
			text += declared
		}
		objects, problems := config.Decode("mesh.yaml", []byte(text))
		if config.HasErrors(problems) {
			t.Fatal(problems)
		}
		m := model.New(slices.Values([]model.Group{{Objects: objects}}))
		node := proxies()[name]
		if name == "gateway" {
			node, _ = scenarioProxy(t, `{"ID": "router~10.0.0.9~gw.default~default.svc.cluster.local", "Metadata": {"NAMESPACE": "default", "LABELS": {"gateway": "gw"}}}`)
		}
		v := ViewOf(node).Outbound
		r := BuildOutbound(m, v)
		o := OriginsOf(m, v, r)
		for listener, want := range rows {
			i := slices.IndexFunc(r.Listeners, func(l *listenerv3.Listener) bool { return l.Name == listener })
			if i < 0 {
				t.Errorf("%s: no listener %s", proxy, listener)
				continue
			}
			got := summed(o.Listener(listener))
			for _, c := range append(slices.Clone(r.Listeners[i].FilterChains), r.Listeners[i].DefaultFilterChain) {
				if c == nil {
					continue
				}
				kind := map[bool]string{true: "HTTP", false: "bytes"}[c.Filters[len(c.Filters)-1].Name == hcmFilter]
				if one := " | " + kind + ": " + summed(o.Chain(listener, c)); !strings.HasSuffix(got, one) {
					got += one
				}
			}
			if got != want {
				t.Errorf("%s: %s is of\n%s, want\n%s", proxy, listener, got, want)
			}
		}
		if name == "gateway" {
			if got := summed(o.Host("http.8080", "a.test:8080")); got != "VirtualService web, Gateway gw spec.servers[0]" {
				t.Errorf("the virtual host is of %s", got)
			}
		}
	}
}

func summed(made Made) string {
	if made.Unmade != "" {
		return "no object: " + made.Unmade
	}
	var out []string
	for _, p := range made.By {
		out = append(out, strings.TrimSpace(p.Meta.Kind+" "+p.Meta.Name+" "+p.Path))
	}
	text := strings.Join(out, ", ")
	if made.More > 0 {
		text += fmt.Sprintf(" and %d more", made.More)
	}
	return text
}
