package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// A proxy listens in the IP families of its routable addresses.
func TestFamilies(t *testing.T) {
	gateway := &networking.Gateway{Servers: []*networking.Server{
		{Port: &networking.Port{Number: 80, Protocol: "HTTP", Name: "http"}, Hosts: []string{"*"}},
		{Port: &networking.Port{Number: 81, Protocol: "HTTP", Name: "own"}, Hosts: []string{"*"}, Bind: "10.0.0.1"},
	}}
	for name, test := range map[string]struct {
		ips     string // beside the node's own
		own     string
		sidecar string
		gateway string
		source  string // source address of connections to the workload
	}{
		"IPv4": {"", "10.0.0.1", "0.0.0.0_80 0.0.0.0:15006 0.0.0.0:15001", "0.0.0.0:80 10.0.0.1:81", "127.0.0.6"},
		"IPv4, and what every host has": {
			"::1,fe80::1", "10.0.0.1", "0.0.0.0_80 0.0.0.0:15006 0.0.0.0:15001", "0.0.0.0:80 10.0.0.1:81", "127.0.0.6",
		},
		"IPv6": {"::1", "fd00::1", "::_80 :::15006 :::15001", "10.0.0.1:81 :::80", "::6"},
		"both": {
			"fd00::1", "10.0.0.1", "0.0.0.0_80 and :: 0.0.0.0:15006 and :: 0.0.0.0:15001 and ::",
			"0.0.0.0:80 and :: 10.0.0.1:81", "127.0.0.6 ::6",
		},
		"both, IPv6 first": {
			"10.0.0.1", "fd00::1", "0.0.0.0_80 and :: 0.0.0.0:15006 and :: 0.0.0.0:15001 and ::",
			"0.0.0.0:80 and :: 10.0.0.1:81", "127.0.0.6 ::6",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := mesh(service("a.com", httpPort(80), at("10.0.0.9", "v1")), gateway)
			view := func(role string) View {
				proxy, err := ParseProxy(envoyNode(t, role+"~"+test.own+"~app.default~"+clusterDomain, map[string]any{
					"NAMESPACE": "default", "INSTANCE_IPS": test.ips,
				}))
				if err != nil {
					t.Fatal(err)
				}
				return ViewOf(proxy)
			}
			where := func(l *listenerv3.Listener) string {
				s := l.Address.GetSocketAddress()
				out := s.Address + ":" + strings.TrimPrefix(l.Name[strings.LastIndex(l.Name, "_")+1:], "virtual")
				switch l.Name {
				case model.VirtualInbound:
					out = s.Address + ":15006"
				case model.VirtualOutbound:
					out = s.Address + ":15001"
				}
				if l.BindToPort != nil {
					out = l.Name
				}
				for _, a := range l.AdditionalAddresses {
					if a.Address.GetSocketAddress().GetPortValue() != s.GetPortValue() {
						t.Errorf("%s: another port: %v", l.Name, a)
					}
					out += " and " + a.Address.GetSocketAddress().Address
				}
				return out
			}
			for role, want := range map[string]string{"sidecar": test.sidecar, "router": test.gateway} {
				var got []string
				for _, l := range Build(m, view(role)).Listeners {
					got = append(got, where(l))
				}
				if got := strings.Join(got, " "); got != want {
					t.Errorf("%s listens at %q, want %q", role, got, want)
				}
			}
			bind := clusterOf(t, m, view("sidecar"), inboundPassthroughCluster).UpstreamBindConfig
			sources := []string{bind.SourceAddress.Address}
			for _, extra := range bind.ExtraSourceAddresses {
				sources = append(sources, extra.Address.Address)
			}
			if want := strings.Fields(test.source); !slices.Equal(sources, want) {
				t.Errorf("connections to the workload come from %v, want %v", sources, want)
			}
		})
	}
}

// Programs that connect to the loopback address reach the proxy in each of its families; both addresses belong to one
// listener.
func TestLoopbackOfBothFamilies(t *testing.T) {
	near := service("near.test", model.Port{Name: "tcp", Number: 9000, Protocol: model.TCP})
	near.Addresses = []string{"::1"}
	far := service("far.test", model.Port{Name: "http", Number: 9000, Protocol: model.HTTP})
	for name, test := range map[string]struct {
		proxyPort string
		ips, want string
	}{
		"dual, an HTTP proxy": {"15080", "10.0.0.1,fd00::1", "127.0.0.1:15080+::1 127.0.0.1:9000+::1"},
		"dual":                {"", "10.0.0.1,fd00::1", "127.0.0.1:9000+::1"},
		"IPv4":                {"", "10.0.0.1", "127.0.0.1:9000 ::1:9000"},
	} {
		t.Run(name, func(t *testing.T) {
			metadata := map[string]any{"NAMESPACE": "default", "INSTANCE_IPS": test.ips, "INTERCEPTION_MODE": "NONE"}
			if test.proxyPort != "" {
				metadata["HTTP_PROXY_PORT"] = test.proxyPort
			}
			proxy, err := ParseProxy(envoyNode(t, "sidecar~10.0.0.1~app.default~"+clusterDomain, metadata))
			if err != nil {
				t.Fatal(err)
			}
			r := Build(mesh(near, far), ViewOf(proxy))
			var got []string
			for _, l := range r.Listeners {
				s := l.Address.GetSocketAddress()
				text := fmt.Sprintf("%s:%d", s.Address, s.GetPortValue())
				for _, a := range l.AdditionalAddresses {
					text += "+" + a.Address.GetSocketAddress().Address
				}
				got = append(got, text)
			}
			if text := strings.Join(got, " "); text != test.want {
				t.Errorf("listens at %s, want %s", text, test.want)
			}
			validate(t, r)
		})
	}
}
