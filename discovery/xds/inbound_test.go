package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func describe(e *endpointv3.ClusterLoadAssignment) string {
	var out []string
	for _, locality := range e.GetEndpoints() {
		for _, endpoint := range locality.LbEndpoints {
			address := endpoint.GetEndpoint().GetAddress()
			if path := address.GetPipe().GetPath(); path != "" {
				out = append(out, path)
				continue
			}
			s := address.GetSocketAddress()
			out = append(out, fmt.Sprintf("%s:%d*%d", s.GetAddress(), s.GetPortValue(), endpoint.GetLoadBalancingWeight().GetValue()))
		}
	}
	return strings.Join(out, " ")
}

func TestInboundPorts(t *testing.T) {
	bound := ingress(9080, "HTTP", "127.0.0.1:1")
	bound.Bind = "127.0.0.99"
	everywhere := ingress(9080, "HTTP", "127.0.0.1:9080")
	everywhere.Bind = "0.0.0.0"
	app := service("app.com", httpPort(9080), model.Endpoint{Address: "127.0.0.11"})
	// A tenant lists the address of another one's workload.
	foreign := service("a.evil.com", model.Port{Name: "tcp", Number: 9080, Protocol: model.TCP}, model.Endpoint{Address: "127.0.0.11"})
	foreign.Namespace, foreign.Ports = "evil", append(foreign.Ports, httpPort(9090))
	tests := map[string]struct {
		parts []any
		want  string // listener>target per port
	}{
		"nothing known":                   {nil, ""},
		"declared":                        {[]any{sidecar(ingress(9080, "HTTP", "127.0.0.1:19080"))}, "127.0.0.11_9080>127.0.0.1:19080*0"},
		"declared, without a target":      {[]any{sidecar(ingress(9080, "HTTP", ""))}, "127.0.0.11_9080>127.0.0.1:9080*0"},
		"IPv6 loopback":                   {[]any{sidecar(ingress(9080, "HTTP", "[::1]:1"))}, "127.0.0.11_9080>::1:1*0"},
		"the instance's own address":      {[]any{sidecar(ingress(9080, "HTTP", "0.0.0.0:1"))}, "127.0.0.11_9080>127.0.0.11:1*0"},
		"the same in IPv6":                {[]any{sidecar(ingress(9080, "HTTP", "[::]:1"))}, "127.0.0.11_9080>127.0.0.11:1*0"},
		"a Unix socket":                   {[]any{sidecar(ingress(9080, "HTTP", "unix:///run/app.sock"))}, "127.0.0.11_9080>/run/app.sock"},
		"the agent's status":              {[]any{sidecar(ingress(9080, "HTTP", "127.0.0.1:15020"))}, ""},
		"Envoy's admin, in IPv6":          {[]any{sidecar(ingress(9080, "HTTP", "[::1]:15000"))}, ""},
		"a socket of the agent":           {[]any{sidecar(ingress(9080, "HTTP", "unix:///etc/istio/proxy/private-0/sds.sock"))}, ""},
		"a service at the agent's port":   {[]any{service("app.com", httpPort(15000), model.Endpoint{Address: "127.0.0.11"})}, ""},
		"bind":                            {[]any{sidecar(bound)}, "127.0.0.99_9080>127.0.0.1:1*0"},
		"never to itself":                 {[]any{sidecar(ingress(9080, "HTTP", "0.0.0.0:9080"))}, ""},
		"never to itself, everywhere":     {[]any{sidecar(everywhere)}, ""},
		"an unreadable target":            {[]any{sidecar(ingress(9080, "HTTP", "app:9080"))}, ""},
		"a port twice":                    {[]any{sidecar(ingress(9080, "HTTP", "127.0.0.1:1"), bound)}, "127.0.0.11_9080>127.0.0.1:1*0"},
		"a service's endpoint":            {[]any{app}, "127.0.0.11_9080>127.0.0.1:9080*0"},
		"a Sidecar without ingress":       {[]any{app, &networking.Sidecar{}}, "127.0.0.11_9080>127.0.0.1:9080*0"},
		"a Sidecar declares otherwise":    {[]any{app, sidecar(ingress(1, "TCP", "127.0.0.1:2"))}, "127.0.0.11_1>127.0.0.1:2*0"},
		"another namespace lists it too":  {[]any{foreign, app}, "127.0.0.11_9080>127.0.0.1:9080*0"},
		"only another namespace lists it": {[]any{foreign}, "127.0.0.11_9080>127.0.0.1:9080*0 127.0.0.11_9090>127.0.0.1:9090*0"},
		"somebody else's endpoint":        {[]any{service("b.com", httpPort(80), model.Endpoint{Address: "127.0.0.12"})}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := BuildInbound(mesh(test.parts...), viewOf(t, "127.0.0.11").Inbound)
			var got []string
			for i, c := range r.Clusters {
				got = append(got, r.Listeners[i].Name+">"+describe(c.LoadAssignment))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A port of a Sidecar without defaultEndpoint is where the connection was sent, as in Istio; where the proxy binds the
// port, it is the same port on loopback.
func TestIngressWithoutDefaultEndpoint(t *testing.T) {
	for mode, want := range map[networking.CaptureMode]string{
		networking.CaptureMode_DEFAULT: "ORIGINAL_DST", networking.CaptureMode_IPTABLES: "ORIGINAL_DST", networking.CaptureMode_NONE: "127.0.0.1:9080*0",
	} {
		entry := ingress(9080, "HTTP", "")
		entry.CaptureMode = mode
		proxy, err := ParseProxy(envoyNode(t, "sidecar~10.0.0.1~app.default~"+clusterDomain, map[string]any{"NAMESPACE": "default"}))
		if err != nil {
			t.Fatal(err)
		}
		r := BuildInbound(mesh(sidecar(entry)), ViewOf(proxy).Inbound)
		i := slices.IndexFunc(r.Clusters, func(c *clusterv3.Cluster) bool { return c.Name == "inbound|9080||" })
		if i < 0 {
			t.Fatalf("%s: no cluster of the port: %v", mode, r.Clusters)
		}
		got := r.Clusters[i].GetType().String()
		if a := r.Clusters[i].LoadAssignment; a != nil {
			got = describe(a)
		}
		if got != want {
			t.Errorf("%s: it leads to %s, want %s", mode, got, want)
		}
	}
}
