package xds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestParseProxyRefusesWhatIsNotServed(t *testing.T) {
	none := map[string]any{"INTERCEPTION_MODE": "NONE"}
	for name, test := range map[string]struct {
		id       string
		metadata map[string]any
		want     string // part of the error
	}{
		"malformed ID":     {"sidecar~127.0.0.1", none, "has 2 parts, want 4"},
		"unknown mode":     {"sidecar~127.0.0.1~a.b~d", map[string]any{"INTERCEPTION_MODE": "EBPF"}, "want REDIRECT, TPROXY or NONE"},
		"malformed labels": {"sidecar~127.0.0.1~a.b~d", map[string]any{"LABELS": "x"}, "node metadata LABELS"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseProxy(envoyNode(t, test.id, test.metadata))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestViewIsComparable(t *testing.T) {
	view := func(ip string, labels map[string]any) View {
		proxy, err := ParseProxy(envoyNode(t, "sidecar~"+ip+"~a.prod~prod.svc.cluster.local", map[string]any{
			"INTERCEPTION_MODE": "NONE", "LABELS": labels,
		}))
		if err != nil {
			t.Fatal(err)
		}
		return ViewOf(proxy)
	}
	a := view("127.0.0.1", map[string]any{"app": "a", "version": "1"})
	if b := view("127.0.0.1", map[string]any{"version": "1", "app": "a"}); a != b {
		t.Errorf("equal proxies have views %+v and %+v", a, b)
	}
	b := view("127.0.0.2", map[string]any{"app": "b"})
	if a.Outbound.In(mesh()) != b.Outbound.In(mesh()) || a.Inbound == b.Inbound {
		t.Errorf("want one outbound half and two inbound ones: %+v and %+v", a, b)
	}
	if got := a.Inbound.Labels()["app"]; got != "a" {
		t.Errorf("label app: got %q", got)
	}
	if a.Inbound.Namespace != "prod" {
		t.Errorf("namespace without metadata: got %q, want the domain's", a.Inbound.Namespace)
	}
}

// A proxy of another domain than the mesh's is named; its own domain may have upper case and a dot at its end.
func TestDomainFault(t *testing.T) {
	for _, test := range []struct {
		role, domain string
		mesh         model.Domain
		want         bool
	}{
		{"sidecar", "default.svc.cluster.local", "", false},
		{"sidecar", "default.svc.cluster.local", "cluster.local", false},
		{"sidecar", "default.svc.corp.example", "corp.example", false},
		{"sidecar", "default.svc.Corp.Example.", "corp.example", false},
		{"sidecar", "default.svc.prod.svc.corp.example", "prod.svc.corp.example", false},
		{"sidecar", "service.consul", "corp.example", false},
		{"sidecar", "", "corp.example", false},
		{"sidecar", "default.svc.cluster.local", "corp.example", true},
		{"sidecar", "default.svc.corp.example", "", true},
		{"sidecar", "default.svc.corp.example", "example", true},
		{"sidecar", "default.svc.sub.corp.example", "corp.example", true},
		{"sidecar", "corp.example", "corp.example", true},
		{"sidecar", "svc.corp.example", "corp.example", true},
		{"sidecar", "prod.svc.corp.example", "prod.svc.corp.example", true},
		{"sidecar", "default.svc.prod.svc.corp.example", "corp.example", true},
		{"router", "default.svc.cluster.local", "corp.example", false},
	} {
		proxy, err := ParseProxy(envoyNode(t, test.role+"~127.0.0.1~a.prod~"+test.domain, map[string]any{"NAMESPACE": "default"}))
		if err != nil {
			t.Fatal(err)
		}
		fault := ViewOf(proxy).DomainFault(test.mesh)
		if (fault != "") != test.want || test.want && !strings.Contains(fault, "want NAMESPACE.svc."+test.mesh.String()) {
			t.Errorf("%s of %q in %q: %q", test.role, test.domain, test.mesh, fault)
		}
	}
}

// The domain of a proxy names the same domain in upper case and with a dot at its end.
func TestDomainOfAProxy(t *testing.T) {
	proxy, err := ParseProxy(envoyNode(t, "sidecar~127.0.0.1~a.prod~prod.svc.Corp.Example.", nil))
	if err != nil {
		t.Fatal(err)
	}
	if v := ViewOf(proxy); v.Outbound.Domain != "prod.svc.corp.example" || v.Outbound.Namespace != "prod" {
		t.Errorf("the view has domain %q and namespace %q", v.Outbound.Domain, v.Outbound.Namespace)
	}
}

// An agent's version is what it says. Of those that do not say it only 0.1 is known.
func TestAgent(t *testing.T) {
	for name, test := range map[string]struct {
		metadata map[string]any
		want     model.Agent
	}{
		"of today":              {map[string]any{"PILOTLIGHT_SDS": "files", "PILOTLIGHT_REPORTS": "requests", "PILOTLIGHT_VERSION": "v0.2.0"}, model.Agent{Version: "v0.2.0"}},
		"past its relay":        {map[string]any{"PILOTLIGHT_SDS": "files", "PILOTLIGHT_REPORTS": "requests"}, model.Agent{}},
		"with its own template": {map[string]any{"PILOTLIGHT_SDS": "none", "PILOTLIGHT_REPORTS": "none"}, model.Agent{}},
		"of 0.1":                {map[string]any{"PILOTLIGHT_SDS": "files"}, model.Agent{Version: "v0.1"}},
		"of 0.1, as it may be":  {map[string]any{"PILOTLIGHT_SDS": "none"}, model.Agent{Version: "v0.1"}},
		"Istio's":               {map[string]any{"ISTIO_VERSION": "1.2.3"}, model.Agent{}},
		"that sees a client":    {map[string]any{"PILOTLIGHT_VERSION": "(devel)", "PILOTLIGHT_BYPASSED": "80 ::1"}, model.Agent{Version: "(devel)", Bypassed: "80 ::1"}},
	} {
		metadata, err := structpb.NewStruct(test.metadata)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ParseProxy(&corev3.Node{Id: "sidecar~10.0.0.1~app.default~default.svc.cluster.local", Metadata: metadata})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Agent(); got != test.want {
			t.Errorf("an agent %s: got %+v, want %+v", name, got, test.want)
		}
	}
}

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
