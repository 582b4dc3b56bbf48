package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

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
