package xds

import (
	"maps"
	"slices"
	"strings"
	"testing"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// scenarioWith returns the mesh and the proxy of a scenario with pairs of texts replaced in it.
func scenarioWith(t *testing.T, file string, pairs ...string) (*model.Mesh, View) {
	t.Helper()
	_, text := readScenario(t, file)
	switch file { // a port at which HTTP is detected
	case "custom-http":
		pairs = append([]string{"{number: 90, name: tcp, protocol: TCP}]", "{number: 90, name: tcp, protocol: TCP}, {number: 91, name: any}]"}, pairs...)
	case "peer-client":
		pairs = append([]string{"82, name: refusing, protocol: HTTP}", "82, name: refusing, protocol: HTTP}\n  - {number: 83, name: any}"}, pairs...)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%s has no %s", file, pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	header, _, _ := strings.Cut(text, "\n")
	header = strings.TrimPrefix(header, "# ")
	proxy, settings := scenarioProxy(t, header)
	objects, _ := config.Decode(file, []byte(text))
	return model.NewIn(domainOf(t, header), slices.Values([]model.Group{{Objects: append(objects, settings...)}})), ViewOf(proxy)
}

// Where HTTP is detected, connections that are not are closed by a CUSTOM policy with conditions of HTTP. Ports declared TCP, and those of a
// provider itself, are open to bytes.
func TestCustomClosesWhatIsNotDetected(t *testing.T) {
	const all, none = 2, 1 // filters of RBAC before bytes: with and without that for what is not detected
	custom := map[string]int{"inbound|90||": none, "inbound|91||": all, undeclaredTCPChain: all}
	for name, test := range map[string]struct {
		file    string
		changes []string
		want    map[string]int
	}{
		"a provider of HTTP":         {"custom-http", nil, custom},
		"a provider of gRPC":         {"custom-http", []string{"{name: asked}\n  rules", "{name: other}\n  rules", `"extensionProviders": [`, `"extensionProviders": [{"name": "other", "envoyExtAuthzGrpc": {"service": "asked.test", "port": 9000}}, `}, custom},
		"mutual TLS":                 {"custom-http", []string{`"Metadata": {`, `"Metadata": {"PILOTLIGHT_SDS": "files", "PILOTLIGHT_CERTIFICATE": "true", `}, custom},
		"own listeners":              {"custom-http", []string{`"Metadata": {`, `"Metadata": {"INTERCEPTION_MODE": "NONE", `}, map[string]int{"10.0.0.2_90": none, "10.0.0.2_91": all}},
		"the provider itself":        {"custom-http", []string{"name: http, protocol: HTTP}, {number: 9000", "name: any}, {number: 9000", "address: 10.0.0.9", "address: 10.0.0.2"}, map[string]int{"inbound|90||": none, "inbound|91||": all, "inbound|8080||": none, undeclaredTCPChain: all}},
		"no condition of HTTP":       {"custom-http", []string{`  - to: [{operation: {paths: [/a, "/b/{**}"]}}]` + "\n", ""}, map[string]int{"inbound|90||": none, "inbound|91||": none, undeclaredTCPChain: none}},
		"no policy":                  {"custom-http", []string{"app: web}}\n  action", "app: other}}\n  action"}, map[string]int{"inbound|90||": 0, "inbound|91||": 0, undeclaredTCPChain: 0}},
		"the collector of its spans": {"custom-http", []string{`"extensionProviders": [`, `"defaultProviders": {"tracing": ["z"]}, "extensionProviders": [{"name": "z", "zipkin": {"service": "web.shop.svc.cluster.local", "port": 91}}, `}, map[string]int{"inbound|90||": none, "inbound|91||": none, undeclaredTCPChain: all}},
	} {
		m, v := scenarioWith(t, test.file, test.changes...)
		got := map[string]int{}
		for _, l := range Build(m, v).Listeners {
			chains := slices.Clone(l.FilterChains)
			if l.DefaultFilterChain != nil {
				chains = append(chains, l.DefaultFilterChain)
			}
			for _, c := range chains {
				filters := strings.Fields(filterNames(c))
				if l.TrafficDirection.String() != "INBOUND" || filters[0] == "http" || c.Name == "virtualInbound-blackhole" {
					continue
				}
				name := c.Name
				if name == "" {
					name = l.Name
				}
				n := 0
				for n < len(filters) && filters[n] == "envoy.filters.network.rbac" {
					n++
				}
				if known, is := got[name]; is && known != n {
					t.Errorf("%s: the chains of %s differ", name, c.Name)
				}
				got[name] = n
			}
		}
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: filters of RBAC before bytes: %v, want %v", name, got, test.want)
		}
	}
}

// HTTP/1.0 is HTTP where policies count, so that it is answered 426 and does not pass as bytes; ISTIO_META_HTTP10 serves it, in both directions.
func TestHTTP10(t *testing.T) {
	const on = `"Metadata": {"HTTP10": "1", `
	for name, test := range map[string]struct {
		file                       string
		changes                    []string
		inbound, outbound, accepts bool // detected there; served
	}{
		"without policies": {"sniff", nil, false, false, false},
		"under policies":   {"custom-http", nil, true, false, false},
		"switched on":      {"sniff", []string{`"Metadata": {`, on}, true, true, true},
		"at a gateway":     {"gateway", []string{`"Metadata": {`, on}, false, false, true},
		"by another value": {"sniff", []string{`"Metadata": {`, `"Metadata": {"HTTP10": "true", `}, false, false, false},
	} {
		m, v := scenarioWith(t, test.file, test.changes...)
		for _, l := range Build(m, v).Listeners {
			for _, c := range l.FilterChains {
				for _, f := range c.Filters {
					manager := &hcmv3.HttpConnectionManager{}
					if f.GetTypedConfig().UnmarshalTo(manager) == nil && manager.HttpProtocolOptions.GetAcceptHttp_10() != test.accepts {
						t.Errorf("%s: %s serves HTTP/1.0: %t", name, l.Name, !test.accepts)
					}
				}
				want := test.outbound
				if l.TrafficDirection.String() == "INBOUND" {
					want = test.inbound
				}
				alpn := c.GetFilterChainMatch().GetApplicationProtocols()
				if slices.Contains(alpn, "h2c") && slices.Contains(alpn, "http/1.0") != want {
					t.Errorf("%s: %s detects %v", name, l.Name, alpn)
				}
			}
		}
	}
}

// A request marks itself as HTTP where the cluster offers ALPN of Istio's only, because its port has no declared protocol, and nowhere else.
func TestOnlyUndeclaredPortsAreMarked(t *testing.T) {
	m, v := scenarioWith(t, "peer-client")
	marked := map[string]bool{}
	r := Build(m, v)
	for _, c := range r.Clusters {
		if alpn := MarkedALPN(c); alpn != nil {
			marked[c.Name] = slices.Equal(alpn, []string{"istio-http/1.1", "istio"})
		}
	}
	if want := map[string]bool{"outbound|83||shop.example.com": true, "outbound|83|labelled|shop.example.com": true}; !maps.Equal(marked, want) {
		t.Errorf("marked are %v, want %v", marked, want)
	}
	for name, test := range map[string]struct {
		change []string
		want   int
	}{
		"no certificate":         {[]string{`"PILOTLIGHT_SDS": "files", "PILOTLIGHT_CERTIFICATE": "true"`, `"NAMESPACE": "default"`}, 0},
		"ISTIO_MUTUAL":           {[]string{"{proxyProtocol: {version: V2}}", "{tls: {mode: ISTIO_MUTUAL}}"}, 2},
		"ISTIO_MUTUAL of HTTP/2": {[]string{"{proxyProtocol: {version: V2}}", "{tls: {mode: ISTIO_MUTUAL}, connectionPool: {http: {h2UpgradePolicy: UPGRADE}}}"}, 2},
		"SIMPLE":                 {[]string{"{proxyProtocol: {version: V2}}", "{tls: {mode: SIMPLE}}"}, 0},
		"DISABLE":                {[]string{"{proxyProtocol: {version: V2}}", "{tls: {mode: DISABLE}}"}, 0},
		"no automatic TLS":       {[]string{`"enableAutoMtls": true`, `"enableAutoMtls": false`}, 0},
		"a declared port":        {[]string{"number: 83, name: any", "number: 83, name: any, protocol: TCP"}, 0},
	} {
		m, v := scenarioWith(t, "peer-client", test.change...)
		n := 0
		for _, c := range Build(m, v).Clusters {
			if MarkedALPN(c) != nil {
				n++
			}
		}
		if n != test.want {
			t.Errorf("%s: %d clusters are marked, want %d", name, n, test.want)
		}
	}
}
