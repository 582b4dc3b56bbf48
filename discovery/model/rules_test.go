package model_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	selector "istio.io/api/type/v1beta1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// rule returns a VirtualService that routes its host to others.
func rule(id string, day int, host string, to ...string) *model.Object {
	v := &networking.VirtualService{Hosts: []string{host}}
	for _, host := range to {
		v.Http = append(v.Http, &networking.HTTPRoute{
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: host}}},
		})
	}
	return object("VirtualService", id, day, v)
}

func with(o *model.Object, change func(*networking.VirtualService)) *model.Object {
	change(o.Spec.(*networking.VirtualService))
	return o
}

// sees formats all rules and services of a scope as one text.
func sees(s *model.Scope) string {
	var out []string
	for _, service := range s.Services() {
		out = append(out, service.Host)
	}
	for i := range s.Egress() {
		rules := s.Rules(i)
		for _, v := range rules.All() {
			out = append(out, fmt.Sprintf("%d:%s/%s", i, v.Namespace, v.Name))
		}
		byHost := maps.Collect(rules.Hosts())
		for _, host := range slices.Sorted(maps.Keys(byHost)) {
			for d := range model.Destinations(byHost[host].Spec) {
				out = append(out, fmt.Sprintf("%d:%s->%s", i, host, d.Host))
			}
			if s.Rule(i, host) != byHost[host] {
				out = append(out, host+" has two rules")
			}
		}
	}
	return strings.Join(out, " ")
}

// A scope after a change of rules equals the scope of the changed mesh. If that cannot be computed cheaply, With
// returns false.
func TestAScopeFollowsItsRules(t *testing.T) {
	sidecar := object("Sidecar", "a/s", 1, &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: []string{"*/x.test"}}}})
	const whole = "w.test x.test y.test 0:a/other 0:a/rule 0:w.test->y.test "
	for name, test := range map[string]struct {
		sidecar *model.Object
		change  *model.Object
		from    string
		follows bool
		want    string
	}{
		"to another host": {nil, rule("a/rule", 2, "x.test", "y.test"), "a", true, whole + "0:x.test->y.test"},
		"to two":          {nil, rule("a/rule", 2, "x.test", "x.test", "y.test"), "a", true, whole + "0:x.test->x.test 0:x.test->y.test"},
		"no route":        {nil, rule("a/rule", 2, "x.test"), "a", true, strings.TrimSpace(whole)},
		"a rule that the Sidecar leaves out": {
			sidecar, rule("a/other", 1, "w.test", "y.test", "y.test"), "a", true, "x.test 0:a/rule 0:x.test->x.test",
		},
		"a Sidecar, to the same host": {
			sidecar, rule("a/rule", 2, "x.test", "x.test", "x.test"), "a", true, "x.test 0:a/rule 0:x.test->x.test 0:x.test->x.test",
		},
		"a Sidecar, to a host that it leaves out": {
			sidecar, rule("a/rule", 2, "x.test", "y.test"), "a", false, "x.test y.test 0:a/rule 0:x.test->y.test",
		},
		"another namespace's scope": {sidecar, rule("a/rule", 2, "x.test", "y.test"), "b", true, whole + "0:x.test->y.test"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []*model.Object{
				entry("a/w", "w.test", nil), entry("a/x", "x.test", nil), entry("a/y", "y.test", nil),
				rule("a/other", 1, "w.test", "y.test"), rule("a/rule", 2, "x.test", "x.test"),
			}
			if test.sidecar != nil {
				objects = append(objects, test.sidecar)
			}
			m := meshOf(objects...)
			before := m.Scope(test.from, nil)
			unchanged := sees(before)
			next, ok := m.With(nil, []*model.Object{test.change})
			if !ok {
				t.Fatal("the mesh does not take a change of routes")
			}
			if got := sees(next.Scope(test.from, nil)); got != test.want {
				t.Errorf("made anew it sees %q\nwant %q", got, test.want)
			}
			after, follows := before.With(next.Delta().Rules)
			if follows != test.follows {
				t.Errorf("the scope follows: %t, want %t", follows, test.follows)
			}
			if follows && sees(after) != test.want {
				t.Errorf("it sees %q\nwant %q", sees(after), test.want)
			}
			if sees(before) != unchanged {
				t.Error("the scope from before the change has changed")
			}
		})
	}
}

// A scope accepts several changes one after another, of one rule and of many, until too many rules have changed.
func TestAScopeFollowsManyChanges(t *testing.T) {
	const n = 100
	var objects []*model.Object
	host := func(i int) string { return fmt.Sprintf("x%d.test", i) }
	for i := range n {
		objects = append(objects, entry(fmt.Sprintf("a/e%d", i), host(i), nil), rule(fmt.Sprintf("a/r%d", i), 1, host(i), host(i)))
	}
	m := meshOf(objects...)
	scope := m.Scope("a", nil)
	followed := 0
	for i := range n {
		for _, to := range []string{"first.test", "second.test"} {
			next, ok := m.With(nil, []*model.Object{rule(fmt.Sprintf("a/r%d", i), 1, host(i), to)})
			if !ok {
				t.Fatalf("the mesh does not take change %d", i)
			}
			m = next
			after, ok := scope.With(m.Delta().Rules)
			if !ok {
				t.Logf("%d changes were followed", followed)
				if followed < 20 {
					t.Error("want more")
				}
				return
			}
			if got, want := sees(after), sees(m.Scope("a", nil)); got != want {
				t.Fatalf("after change %d to %s: got %s\nwant %s", i, to, got, want)
			}
			scope, followed = after, followed+1
		}
	}
	t.Error("there is no end: what was moved is looked up in a list that grows")
}

// A gateway uses the rules that name it and that are visible to its namespace: its own first, then those exported to it
// by name, then those for all.
func TestGatewayRules(t *testing.T) {
	to := func(gateways []string, exportTo ...string) func(*networking.VirtualService) {
		return func(v *networking.VirtualService) { v.Gateways, v.ExportTo = gateways, exportTo }
	}
	const day = 2
	for name, test := range map[string]struct {
		rules []*model.Object
		from  string // namespace of the gateway's workload
		want  string
	}{
		"by its short name":       {[]*model.Object{with(rule("gw/r", day, "x.test"), to([]string{"g"}))}, "gw", "gw/r"},
		"by its full name":        {[]*model.Object{with(rule("a/r", day, "x.test"), to([]string{"gw/g"}))}, "gw", "a/r"},
		"by its old name":         {[]*model.Object{with(rule("a/r", day, "x.test"), to([]string{"g.gw.svc.cluster.local"}))}, "gw", "a/r"},
		"a namesake elsewhere":    {[]*model.Object{with(rule("a/r", day, "x.test"), to([]string{"g"}))}, "gw", ""},
		"the mesh":                {[]*model.Object{rule("gw/r", day, "x.test"), with(rule("gw/s", day, "x.test"), to([]string{"mesh"}))}, "gw", ""},
		"the mesh and itself":     {[]*model.Object{with(rule("gw/r", day, "x.test"), to([]string{"mesh", "g"}))}, "gw", "gw/r"},
		"not exported":            {[]*model.Object{with(rule("a/r", day, "x.test"), to([]string{"gw/g"}, "."))}, "gw", ""},
		"exported to another":     {[]*model.Object{with(rule("a/r", day, "x.test"), to([]string{"gw/g"}, "b"))}, "gw", ""},
		"its workload's is asked": {[]*model.Object{with(rule("a/r", day, "x.test"), to([]string{"gw/g"}, "b"))}, "b", "a/r"},
		"own, named, for all": {[]*model.Object{
			with(rule("a/all", 1, "x.test"), to([]string{"gw/g"})),
			with(rule("a/star", 2, "x.test"), to([]string{"gw/g"}, "*")),
			with(rule("a/named", 3, "x.test"), to([]string{"gw/g"}, "gw")),
			with(rule("gw/own", 4, "x.test"), to([]string{"g"}, ".")),
			with(rule("gw/older", 3, "x.test"), to([]string{"g"}, "gw")),
		}, "gw", "gw/older gw/own a/named a/all a/star"},
		"MeshConfig's default": {[]*model.Object{
			object("MeshConfig", "/mesh", 1, &meshconfig.MeshConfig{DefaultVirtualServiceExportTo: []string{"."}}),
			with(rule("a/r", day, "x.test"), to([]string{"gw/g"})),
			with(rule("gw/r", day, "x.test"), to([]string{"g"})),
		}, "gw", "gw/r"},
	} {
		t.Run(name, func(t *testing.T) {
			gateway := object("Gateway", "gw/g", 1, &networking.Gateway{Selector: map[string]string{"istio": "g"}})
			m := meshOf(append(test.rules, gateway)...)
			gateways := m.GatewaysAt("", map[string]string{"istio": "g"})
			if len(gateways) != 1 {
				t.Fatalf("%d gateways, want one", len(gateways))
			}
			var got []string
			for _, v := range m.GatewayRules(gateways[0], test.from) {
				got = append(got, v.Namespace+"/"+v.Name)
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %q, want %q", strings.Join(got, " "), test.want)
			}
		})
	}
}

// LabelsRead returns each label that affects the configuration of a workload, from every kind of object, and no other
// label.
func TestLabelsRead(t *testing.T) {
	labels := map[string]string{"l": "x"}
	failover := func(keys ...string) *networking.TrafficPolicy {
		return &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{
			LocalityLbSetting: &networking.LocalityLoadBalancerSetting{FailoverPriority: keys},
		}}
	}
	for name, test := range map[string]struct {
		kind    string
		spec    any
		own     string // keys for a workload of the object's namespace
		other   string // keys for a workload of another namespace
		gateway string // keys for a gateway of another namespace
	}{
		"nothing":        {"ServiceEntry", entry("a/e", "x.test", nil).Spec, "", "", ""},
		"a Sidecar":      {"Sidecar", &networking.Sidecar{WorkloadSelector: &networking.WorkloadSelector{Labels: labels}}, "l", "", ""},
		"a Gateway":      {"Gateway", &networking.Gateway{Selector: labels}, "", "", "l"},
		"a ServiceEntry": {"ServiceEntry", entry("a/e", "x.test", labels).Spec, "", "", ""}, // labels of endpoints
		"sources of HTTP": {"VirtualService", &networking.VirtualService{Hosts: []string{"x.test"}, Http: []*networking.HTTPRoute{
			{Match: []*networking.HTTPMatchRequest{{SourceLabels: labels}, {SourceLabels: map[string]string{"m": ""}}}},
		}}, "l m", "l m", "l m"},
		"sources of TLS": {"VirtualService", &networking.VirtualService{Hosts: []string{"x.test"}, Tls: []*networking.TLSRoute{
			{Match: []*networking.TLSMatchAttributes{{SourceLabels: labels}}},
		}}, "l", "l", "l"},
		"sources of TCP": {"VirtualService", &networking.VirtualService{Hosts: []string{"x.test"}, Tcp: []*networking.TCPRoute{
			{Match: []*networking.L4MatchAttributes{{SourceLabels: labels}}},
		}}, "l", "l", "l"},
		"a policy's workloads": {"DestinationRule", &networking.DestinationRule{
			Host: "x.test", WorkloadSelector: &selector.WorkloadSelector{MatchLabels: labels},
		}, "l", "", ""},
		"a policy's failover": {"DestinationRule", &networking.DestinationRule{
			Host: "x.test", TrafficPolicy: failover("l", "m=1"),
		}, "l m", "l m", "l m"},
		"a port's failover": {"DestinationRule", &networking.DestinationRule{
			Host: "x.test", TrafficPolicy: &networking.TrafficPolicy{PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{
				{LoadBalancer: failover("l").LoadBalancer},
			}},
		}, "l", "l", "l"},
		"a subset's failover": {"DestinationRule", &networking.DestinationRule{
			Host: "x.test", Subsets: []*networking.Subset{{Name: "s", Labels: map[string]string{"m": ""}, TrafficPolicy: failover("l")}},
		}, "l", "l", "l"},
		"the mesh's failover": {"MeshConfig", &meshconfig.MeshConfig{
			LocalityLbSetting: &networking.LocalityLoadBalancerSetting{FailoverPriority: []string{"l"}},
		}, "l", "l", "l"},
	} {
		t.Run(name, func(t *testing.T) {
			m := meshOf(object(test.kind, "a/o", 1, test.spec))
			for _, ask := range []struct {
				namespace string
				gateway   bool
				want      string
			}{{"a", false, test.own}, {"b", false, test.other}, {"b", true, test.gateway}} {
				got := strings.Join(slices.Sorted(maps.Keys(m.LabelsRead(ask.namespace, ask.gateway))), " ")
				if got != ask.want {
					t.Errorf("of a workload of %s, a gateway %t: reads %q, want %q", ask.namespace, ask.gateway, got, ask.want)
				}
			}
		})
	}
}
