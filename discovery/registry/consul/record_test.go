package consul

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// home is where services are by default.
var home = spot{domains: []string{Domain}}

func TestGroupOf(t *testing.T) {
	web := func(edit func(e *serviceEntry)) *serviceEntry {
		e := entry("web", "1", "10.0.0.1", 8080)
		e.Checks = nil
		edit(e)
		return e
	}
	second := func(edit func(e *serviceEntry)) *serviceEntry {
		e := entry("web", "2", "10.0.0.2", 8080)
		e.Checks = nil
		edit(e)
		return e
	}
	nothing := func(*serviceEntry) {}
	checked := func(statuses ...string) func(*serviceEntry) {
		return func(e *serviceEntry) {
			for _, s := range statuses {
				e.Checks = append(e.Checks, &healthCheck{CheckID: "c", Status: s})
			}
		}
	}
	endpoint := func(address string, health model.Health, edit ...func(*model.Endpoint)) model.Endpoint {
		e := model.Endpoint{Address: address, Weight: 1, Locality: model.Locality{Region: "dc1"}, Cluster: "dc1", Health: health}
		for _, do := range edit {
			do(&e)
		}
		return e
	}
	auto := []model.Port{{Name: "port-8080", Number: 8080}}
	type want struct {
		ports     []model.Port
		endpoints []model.Endpoint
		faults    []string
		dns       bool
	}
	for _, tt := range []struct {
		name    string
		entries []*serviceEntry
		want    want
	}{
		{"two instances, in order", []*serviceEntry{second(nothing), web(nothing)}, want{
			auto, []model.Endpoint{endpoint("10.0.0.1", model.HealthUnknown), endpoint("10.0.0.2", model.HealthUnknown)}, nil, false,
		}},
		{"health", []*serviceEntry{
			web(checked("passing", "passing")), second(checked("passing", "critical")),
		}, want{auto, []model.Endpoint{endpoint("10.0.0.1", model.HealthHealthy), endpoint("10.0.0.2", model.HealthUnhealthy)}, nil, false}},
		{"maintenance before critical", []*serviceEntry{web(func(e *serviceEntry) {
			e.Checks = healthChecks{{CheckID: "_service_maintenance:1", Status: "critical"}, {CheckID: "c", Status: "critical"}}
		})}, want{auto, []model.Endpoint{endpoint("10.0.0.1", model.HealthDraining)}, nil, false}},
		{"warnings and their weights", []*serviceEntry{
			web(func(e *serviceEntry) {
				checked("warning")(e)
				e.Service.Weights = agentWeights{Passing: 10, Warning: 3}
			}),
			second(func(e *serviceEntry) { checked("warning")(e); e.Service.Weights = agentWeights{Passing: 10} }),
		}, want{auto, []model.Endpoint{
			endpoint("10.0.0.1", model.HealthHealthy, func(e *model.Endpoint) { e.Weight = 3 }),
			endpoint("10.0.0.2", model.HealthDraining, func(e *model.Endpoint) { e.Weight = 10 }),
		}, nil, false}},
		{"a status of another version", []*serviceEntry{web(checked("asleep"))}, want{
			auto,
			[]model.Endpoint{endpoint("10.0.0.1", model.HealthUnhealthy)},
			[]string{`instance 1 of node node-1: check c is "asleep", want passing, warning or critical`},
			false,
		}},
		{"tags, meta, locality", []*serviceEntry{
			web(func(e *serviceEntry) {
				e.Service.Tags, e.Service.Meta = []string{"version=v1", "team|a", "canary", "stage=x", "=odd"}, map[string]string{"stage": "prod"}
				e.Node.Meta = map[string]string{"region": "eu", "zone": "eu-1", "subzone": "r7"}
			}),
			second(func(e *serviceEntry) {
				e.Service.Locality = &locality{Region: "us", Zone: "us-1"}
				e.Node.Locality = &locality{Region: "none"}
			}),
		}, want{auto, []model.Endpoint{
			endpoint("10.0.0.1", model.HealthUnknown, func(e *model.Endpoint) {
				e.Labels = map[string]string{"version": "v1", "team": "a", "canary": "true", "stage": "prod", "=odd": "true"}
				e.Locality = model.Locality{Region: "eu", Zone: "eu-1", SubZone: "r7"}
			}),
			endpoint("10.0.0.2", model.HealthUnknown, func(e *model.Endpoint) { e.Locality = model.Locality{Region: "us", Zone: "us-1"} }),
		}, nil, false}},
		{"the node's address, and a name", []*serviceEntry{
			web(func(e *serviceEntry) { e.Service.Address = "" }),
			second(func(e *serviceEntry) { e.Service.Address = "web.example.com" }),
		}, want{auto, []model.Endpoint{endpoint("10.9.9.9", model.HealthUnknown), endpoint("web.example.com", model.HealthUnknown)}, nil, true}},
		{"ports of their own", []*serviceEntry{
			web(func(e *serviceEntry) { e.Service.Meta = map[string]string{"protocol": "grpc"} }),
			second(func(e *serviceEntry) { e.Service.Port = 9090; e.Node.Meta = map[string]string{"protocol": "http"} }),
		}, want{[]model.Port{{Name: "grpc-8080", Number: 8080, Protocol: model.GRPC}, {Name: "http-9090", Number: 9090, Protocol: model.HTTP}}, []model.Endpoint{
			endpoint("10.0.0.1", model.HealthUnknown, func(e *model.Endpoint) {
				e.Labels, e.Ports, e.Partial = map[string]string{"protocol": "grpc"}, map[string]uint32{"grpc-8080": 8080}, true
			}),
			endpoint("10.0.0.2", model.HealthUnknown, func(e *model.Endpoint) { e.Ports, e.Partial = map[string]uint32{"http-9090": 9090}, true }),
		}, nil, false}},
		{"one port that is dialled", []*serviceEntry{
			web(func(e *serviceEntry) {
				e.Service.Meta, e.Service.Port = map[string]string{"service-port": "80"}, 31001
			}),
		}, want{[]model.Port{{Name: "port-80", Number: 80}}, []model.Endpoint{endpoint("10.0.0.1", model.HealthUnknown, func(e *model.Endpoint) {
			e.Labels, e.Ports, e.Partial = map[string]string{"service-port": "80"}, map[string]uint32{"port-80": 31001}, true
		})}, nil, false}},
		{"named ports", []*serviceEntry{
			web(func(e *serviceEntry) {
				e.Service.Port, e.Service.Ports = 0, []servicePort{{Name: "http", Port: 80, Default: true}, {Name: "grpc-admin", Port: 81}}
			}),
		}, want{
			[]model.Port{{Name: "http-80", Number: 80, Protocol: model.HTTP}, {Name: "grpc-admin-81", Number: 81, Protocol: model.GRPC}},
			[]model.Endpoint{endpoint("10.0.0.1", model.HealthUnknown)},
			nil, false,
		}},
		{"two words for one port", []*serviceEntry{
			web(func(e *serviceEntry) { e.Node.Meta = map[string]string{"protocol": "http"} }), second(nothing),
		}, want{
			[]model.Port{{Name: "http-8080", Number: 8080, Protocol: model.HTTP}},
			[]model.Endpoint{endpoint("10.0.0.1", model.HealthUnknown), endpoint("10.0.0.2", model.HealthUnknown)},
			[]string{"instance 2 of node node-2: port 8080 speaks an unknown protocol, and with another instance HTTP, which is taken"},
			false,
		}},
		{"malformed in part", []*serviceEntry{
			web(func(e *serviceEntry) { e.Service.Port = 70000 }), second(nothing),
		}, want{
			auto,
			[]model.Endpoint{endpoint("10.0.0.2", model.HealthUnknown)},
			[]string{"instance 1 of node node-1: port is 70000, want 1 to 65535"},
			false,
		}},
		{"malformed", []*serviceEntry{
			web(func(e *serviceEntry) { e.Service.Address = "0.0.0.0" }),
			second(func(e *serviceEntry) {
				e.Service.Meta = map[string]string{"protocol": "htpp", "service-port": "web"}
			}),
		}, want{faults: []string{
			`instance 1 of node node-1: address is "0.0.0.0", want an IP address or a host name`,
			`instance 2 of node node-2: meta service-port is "web", want 1 to 65535`,
		}}},
		{"another protocol than there are", []*serviceEntry{
			web(func(e *serviceEntry) { e.Service.Meta = map[string]string{"protocol": "htpp"} }),
		}, want{faults: []string{`instance 1 of node node-1: meta protocol is "htpp", want a protocol such as http, grpc or tcp`}}},
		{"proxies and gateways", []*serviceEntry{
			web(func(e *serviceEntry) { e.Service.Kind = kindProxy }),
			second(func(e *serviceEntry) { e.Service.Kind = "mesh-gateway" }), nil,
			{},
		}, want{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := model.Group{Faults: tt.want.faults}
			if tt.want.endpoints != nil {
				s := &model.Service{
					Registry: "Consul", Right: model.RightSuffix, Cluster: "dc1", Host: "web.service.consul", Namespace: "default", Name: "web",
					Origin: model.Origin{Record: &model.Record{Cluster: "dc1"}}, Resolution: model.ResolutionStatic, Ports: tt.want.ports, Endpoints: tt.want.endpoints,
				}
				if tt.want.dns {
					s.Resolution = model.ResolutionDNS
				}
				want.Services = []*model.Service{s}
			}
			if diff := cmp.Diff(want, groupOf(home, "web", tt.entries)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHost(t *testing.T) {
	for _, tt := range []struct{ name, namespace, want string }{
		{"Web", "", "web.service.consul"},
		{"web", "default", "web.service.consul"},
		{"api.v1", "Team", "api.v1.service.team.ns.consul"},
	} {
		if got := (spot{namespace: tt.namespace}).host(tt.name, Domain); got != tt.want {
			t.Errorf("the host of %s in %q is %s, want %s", tt.name, tt.namespace, got, tt.want)
		}
	}
	for _, name := range []string{"", "a b", "a..b", "-a", "a/b", "ä"} {
		if g := groupOf(home, name, nil); !g.Malformed() {
			t.Errorf("a service of the name %q has the group %+v, want faults", name, g)
		}
	}
}

// A Consul with several DNS domains serves each service in each of them. Only "consul" is its own.
func TestDomains(t *testing.T) {
	at := Config{Domains: []string{"consul", "corp.example"}, Namespace: "team"}.spot()
	group := groupOf(at, "web", []*serviceEntry{entry("web", "1", "10.0.0.1", 80)})
	var got []string
	for _, s := range group.Services {
		got = append(got, fmt.Sprint(s.Host, " ", s.Namespace, " ", s.Right, " ", len(s.Endpoints)))
	}
	if want := []string{"web.service.team.ns.consul team 1 1", "web.service.team.ns.corp.example team 0 1"}; !slices.Equal(got, want) {
		t.Errorf("the services are %q, want %q", got, want)
	}
}

// An instance of Consul's mesh without a proxy is served in plain text, which is said.
func TestConnectNative(t *testing.T) {
	e := entry("web", "1", "10.0.0.1", 80)
	e.Service.Connect = &struct{ Native bool }{true}
	s := groupOf(home, "web", []*serviceEntry{e}).Services[0]
	if len(s.Ignored) != 1 || !strings.HasPrefix(s.Ignored[0], "connect.native is true for instance 1") {
		t.Errorf("ignored is %q", s.Ignored)
	}
}

// Instances with ports of their own, as Nomad gives them, need the meta with the port that clients dial.
func TestPortsOfInstances(t *testing.T) {
	one, two := entry("web", "1", "10.0.0.1", 20001), entry("web", "2", "10.0.0.2", 20002)
	if s := groupOf(home, "web", []*serviceEntry{one, two}).Services[0]; len(s.Ignored) != 1 ||
		!strings.HasPrefix(s.Ignored[0], "meta service-port is missing, and instances have ports of their own, such as 20001 and 20002") {
		t.Errorf("ignored is %q", s.Ignored)
	}
	one.Service.Meta, two.Service.Meta = map[string]string{metaPort: "80"}, map[string]string{metaPort: "80"}
	if s := groupOf(home, "web", []*serviceEntry{one, two}).Services[0]; len(s.Ignored) > 0 || len(s.Ports) != 1 {
		t.Errorf("with the meta: ignored is %q, ports are %v", s.Ignored, s.Ports)
	}
}

// Labels are bounded, and the rest is counted.
func TestManyTags(t *testing.T) {
	e := entry("web", "1", "10.0.0.1", 80)
	for i := range 1000 {
		e.Service.Tags = append(e.Service.Tags, fmt.Sprintf("tag-%d=%s", i, strings.Repeat("x", i)))
	}
	g := groupOf(home, "web", []*serviceEntry{e})
	if n := len(g.Services[0].Endpoints[0].Labels); n != model.MaxLabels || len(g.Faults) != 1 || !strings.Contains(g.Faults[0], "936 of its tags") {
		t.Errorf("%d labels, %q", n, g.Faults)
	}
}

// No entry of a broken or hostile Consul ends the program, and all addresses that are served can be dialled.
func FuzzGroupOf(f *testing.F) {
	f.Add("web", "10.0.0.1", "10.0.0.2", 80, "a=b", "protocol", "http", "passing", 1)
	f.Fuzz(func(t *testing.T, name, address, node string, port int, tag, key, value, status string, weight int) {
		e := entry(name, "1", address, port)
		e.Node.Address, e.Service.Tags, e.Service.Meta = node, []string{tag}, map[string]string{key: value}
		e.Checks[0].Status, e.Service.Weights.Passing = status, weight
		for _, s := range groupOf(home, name, []*serviceEntry{e}).Services {
			if len(s.Endpoints) != 1 || s.Endpoints[0].Address == "" || len(s.Ports) != 1 || s.Ports[0].Number == 0 || s.Ports[0].Number > 65535 {
				t.Errorf("%+v", s)
			}
		}
	})
}
