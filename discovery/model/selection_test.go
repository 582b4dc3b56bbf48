package model_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// groups returns objects in the form that sources send: each in a group of its own.
func groups(objects ...*model.Object) []model.Group {
	var out []model.Group
	for _, o := range objects {
		out = append(out, model.Group{Objects: []*model.Object{o}})
	}
	return out
}

func meshOf(objects ...*model.Object) *model.Mesh {
	return model.New(slices.Values(groups(objects...)))
}

// object returns one of a kind, by "namespace/name" and its age in days.
func object(kind, id string, day int, spec any) *model.Object {
	namespace, name, _ := strings.Cut(id, "/")
	return &model.Object{
		Meta: model.Meta{Kind: kind, Namespace: namespace, Name: name, Created: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)}, Spec: spec,
	}
}

// entry returns a ServiceEntry without endpoints of its own.
func entry(id, host string, selector map[string]string) *model.Object {
	e := &networking.ServiceEntry{
		Hosts: []string{host}, Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
		Ports: []*networking.ServicePort{{Name: "http", Number: 80, TargetPort: 8080, Protocol: "HTTP"}},
	}
	if selector != nil {
		e.WorkloadSelector = &networking.WorkloadSelector{Labels: selector}
	}
	return object("ServiceEntry", id, 1, e)
}

func workload(id, address string, labels map[string]string) *model.Object {
	return object("WorkloadEntry", id, 1, &networking.WorkloadEntry{Address: address, Labels: labels})
}

// endpoints returns those of a host as text: address:port and their other properties.
func endpoints(m *model.Mesh, host string) string {
	s := m.Service(host)
	if s == nil {
		return "no service"
	}
	var out []string
	for _, e := range s.Endpoints {
		text := fmt.Sprintf("%s:%d", e.Address, e.PortOn(s.Ports[0]))
		if e.Weight != 0 || e.Network != "" || e.Locality != (model.Locality{}) {
			text += fmt.Sprintf(" weight %d network %s in %s", e.Weight, e.Network, e.Locality)
		}
		if e.Labels["version"] != "" {
			text += " " + e.Labels["version"]
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// A ServiceEntry's workloadSelector selects the WorkloadEntries of its own namespace that have all of its labels.
func TestAServiceSelectsWorkloads(t *testing.T) {
	app := map[string]string{"app": "x"}
	withLabels := func(o *model.Object, labels map[string]string) *model.Object { o.Labels = labels; return o }
	for name, test := range map[string]struct {
		selector  map[string]string
		workloads []*model.Object
		want      string
	}{
		"none":    {app, nil, ""},
		"by name": {app, []*model.Object{workload("a/w", "10.0.0.1", app)}, "10.0.0.1:8080"},
		"several": {app, []*model.Object{workload("a/v", "10.0.0.2", app), workload("a/w", "10.0.0.1", app)}, "10.0.0.1:8080, 10.0.0.2:8080"},
		"another value, or no such label": {
			app, []*model.Object{workload("a/v", "10.0.0.1", map[string]string{"app": "y"}), workload("a/w", "10.0.0.2", nil)}, "",
		},
		"all labels are needed": {
			map[string]string{"app": "x", "version": "v1"},
			[]*model.Object{workload("a/v", "10.0.0.1", app), workload("a/w", "10.0.0.2", map[string]string{"app": "x", "version": "v1", "more": ""})},
			"10.0.0.2:8080 v1",
		},
		"of another namespace":      {app, []*model.Object{workload("b/w", "10.0.0.1", app)}, ""},
		"by the object's labels":    {app, []*model.Object{withLabels(workload("a/w", "10.0.0.1", nil), app)}, "10.0.0.1:8080"},
		"the spec's labels decide":  {app, []*model.Object{withLabels(workload("a/w", "10.0.0.1", map[string]string{"app": "y"}), app)}, ""},
		"both labels join":          {app, []*model.Object{withLabels(workload("a/w", "10.0.0.1", app), map[string]string{"version": "v1"})}, "10.0.0.1:8080 v1"},
		"without a selector nobody": {nil, []*model.Object{workload("a/w", "10.0.0.1", app)}, ""},
		"with all that it says": {app, []*model.Object{object("WorkloadEntry", "a/w", 1, &networking.WorkloadEntry{
			Address: "10.0.0.1", Labels: app, Ports: map[string]uint32{"http": 9090}, Weight: 3, Network: "n", Locality: "r/z/s",
		})}, "10.0.0.1:9090 weight 3 network n in r/z/s"},
	} {
		t.Run(name, func(t *testing.T) {
			m := meshOf(append(test.workloads, entry("a/e", "x.test", test.selector))...)
			if got := endpoints(m, "x.test"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// One workload may serve several services; each has an endpoint with its address.
func TestAWorkloadOfSeveralServices(t *testing.T) {
	app := map[string]string{"app": "x"}
	m := meshOf(entry("a/e", "x.test", app), entry("a/f", "y.test", app), entry("a/g", "z.test", map[string]string{"app": "z"}),
		workload("a/w", "10.0.0.1", app))
	var got []string
	for _, s := range m.ServicesAt(netip.MustParseAddr("10.0.0.1")) {
		got = append(got, s.Host)
	}
	if want := []string{"x.test", "y.test"}; !slices.Equal(got, want) {
		t.Errorf("the services at its address are %q, want %q", got, want)
	}
}

// A new, changed or removed workload changes the services that select it, and no others.
func TestWorkloadsComeAndGo(t *testing.T) {
	x, y := map[string]string{"app": "x"}, map[string]string{"app": "y"}
	all := []*model.Object{entry("a/e", "x.test", x), entry("a/f", "y.test", y), workload("a/w", "10.0.0.1", x), workload("a/v", "10.0.0.9", y)}
	others := groups(all[0], all[1], all[3]) // the same values in each generation
	m := model.New(slices.Values(append(others, groups(all[2])...)))
	for _, step := range []struct {
		name     string
		workload *model.Object // instead of a/w; nil for none
		want     string
	}{
		{"another address", workload("a/w", "10.0.0.2", x), "10.0.0.2:8080"},
		{"other labels", workload("a/w", "10.0.0.2", map[string]string{"app": "z"}), ""},
		{"back again", workload("a/w", "10.0.0.3", x), "10.0.0.3:8080"},
		{"gone", nil, ""},
	} {
		now := slices.Clone(others)
		if step.workload != nil {
			now = append(now, groups(step.workload)...)
		}
		next := m.Next(slices.Values(now))
		if got := endpoints(next, "x.test"); got != step.want {
			t.Errorf("%s: got %q, want %q", step.name, got, step.want)
		}
		if got := endpoints(next, "y.test"); got != "10.0.0.9:8080" || next.Service("y.test") != m.Service("y.test") {
			t.Errorf("%s: the other service was made anew, or has %q", step.name, got)
		}
		m = next
	}
}

// The same objects give the same service, pointer for pointer, so no resource is built again.
func TestTheSameWorkloadsMakeTheSameService(t *testing.T) {
	x := map[string]string{"app": "x"}
	all := groups(entry("a/e", "x.test", x), workload("a/w", "10.0.0.1", x))
	m := model.New(slices.Values(all))
	if next := m.Next(slices.Values(all)); next.Service("x.test") != m.Service("x.test") {
		t.Error("the same groups make another service")
	}
}
