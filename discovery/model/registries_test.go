package model

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// registered returns a service x.test of a Kubernetes cluster, with one endpoint.
func registered(cluster, endpoint string, change ...func(*Service)) *Service {
	s := &Service{
		Right: RightFull, Registry: "Kubernetes", Cluster: cluster, Origin: Origin{Record: &Record{Cluster: cluster, UID: "u-" + cluster, Generation: 3, Version: "7"}},
		Host: "x.test", Namespace: "a", Name: "x", Created: time.Unix(100, 0), Resolution: ResolutionStatic, Addresses: []string{"10.96.0.1"},
		Ports: []Port{{Name: "http", Number: 80, Protocol: HTTP}}, Endpoints: []Endpoint{{Address: endpoint, Cluster: cluster}},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

// entryOf returns a ServiceEntry for x.test that is older than any registered service, with one endpoint.
func entryOf(change ...func(*networking.ServiceEntry)) *Object {
	e := &networking.ServiceEntry{
		Hosts: []string{"X.test"}, Resolution: networking.ServiceEntry_STATIC, Location: networking.ServiceEntry_MESH_INTERNAL,
		Ports:     []*networking.ServicePort{{Number: 80, Name: "web", Protocol: "HTTP"}},
		Endpoints: []*networking.WorkloadEntry{{Address: "10.9.0.1"}},
	}
	for _, c := range change {
		c(e)
	}
	return &Object{Meta: Meta{Kind: "ServiceEntry", Namespace: "a", Name: "se", Created: time.Unix(1, 0), Origin: Origin{File: "se.yaml", Line: 4}}, Spec: e}
}

// The rules of the union for a host of several registries: which declaration is the owner of each field, which
// endpoints join, and which notes there are.
func TestUnionOfRegistries(t *testing.T) {
	type services = []*Service
	younger := func(s *Service) { s.Created = time.Unix(200, 0) }
	headless := func(s *Service) { s.Headless = true }
	tcp := func(s *Service) { s.Ports[0].Protocol = TCP }
	ownPort := func(s *Service) { s.Ports = []Port{{Name: "http", Number: 81, Protocol: HTTP}} }
	address := func(s *Service) { s.Addresses = []string{"10.96.0.9"} }
	export := func(s *Service) { s.ExportTo = []string{"."} }
	for what, test := range map[string]struct {
		services services
		objects  []*Object
		want     string   // registry and cluster of the owner, addresses, exportTo, ports: endpoints
		said     []string // loser and winner, path, a part of the message
	}{
		"two clusters": {
			services{registered("west", "10.2.0.1", younger, address), registered("east", "10.1.0.1")},
			nil,
			"Kubernetes east [10.96.0.1] [] http/80/HTTP: 10.1.0.1:80 10.2.0.1:80", nil,
		},
		"two clusters of one age": {
			services{registered("west", "10.2.0.1"), registered("east", "10.1.0.1")},
			nil,
			"Kubernetes east [10.96.0.1] [] http/80/HTTP: 10.1.0.1:80 10.2.0.1:80", nil,
		},
		"two clusters, two ports": {
			services{registered("west", "10.2.0.1", ownPort), registered("east", "10.1.0.1")},
			nil,
			"Kubernetes east [10.96.0.1] [] http/80/HTTP: 10.1.0.1:80, http-81/81/HTTP: 10.2.0.1:81", nil,
		},
		"two clusters, two protocols": {
			services{registered("west", "10.2.0.1", tcp), registered("east", "10.1.0.1")},
			nil,
			"Kubernetes east [10.96.0.1] [] http/80/HTTP: 10.1.0.1:80 10.2.0.1:80",
			[]string{"Service a/x (west) loses to Service a/x (east): ports: x.test:80 is HTTP by Kubernetes Service a/x (cluster east)"},
		},
		"one is headless": {
			services{registered("west", "10.2.0.1", headless), registered("east", "10.1.0.1")},
			nil,
			"Kubernetes east [10.96.0.1] [] http/80/HTTP: 10.1.0.1:80",
			[]string{"Service a/x (west) loses to Service a/x (east): hosts: with another cluster IP"},
		},
		"other readers in another cluster": {
			services{registered("west", "10.2.0.1", export), registered("east", "10.1.0.1")},
			nil,
			"Kubernetes east [10.96.0.1] [] http/80/HTTP: 10.1.0.1:80 10.2.0.1:80",
			[]string{"Service a/x (west) loses to Service a/x (east): exportTo: counts"},
		},
		"a ServiceEntry adds, though it is older": {
			services{registered("east", "10.1.0.1")},
			[]*Object{entryOf()},
			"Kubernetes east [10.96.0.1] [] http/80/HTTP: 10.1.0.1:80 10.9.0.1:80", nil,
		},
		"a ServiceEntry with its own address": {
			services{registered("east", "10.1.0.1")},
			[]*Object{entryOf(func(e *networking.ServiceEntry) { e.Addresses = []string{"10.9.9.9"} })},
			"Kubernetes east [10.96.0.1] [] http/80/HTTP: 10.1.0.1:80 10.9.0.1:80",
			[]string{"ServiceEntry a/se (se.yaml:4) loses to Service a/x (east): spec.addresses: counts"},
		},
		"a ServiceEntry that Envoy resolves": {
			services{registered("east", "10.1.0.1")},
			[]*Object{entryOf(func(e *networking.ServiceEntry) { e.Resolution, e.Endpoints = networking.ServiceEntry_DNS, nil })},
			"Kubernetes east [10.96.0.1] [] http/80/HTTP: 10.1.0.1:80",
			[]string{"ServiceEntry a/se (se.yaml:4) loses to Service a/x (east): spec.hosts: with another resolution"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			m := meshOf(test.objects, test.services...)
			if n := len(m.Services()); n != 1 {
				t.Fatalf("%d services, want one", n)
			}
			s := m.Services()[0]
			if got := fmt.Sprintf("%s %s %v %v %s", s.Registry, s.Cluster, s.Addresses, s.ExportTo, shown(s)); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
			var said []string
			for _, n := range m.Notes() {
				where := func(m Meta) string {
					at := m.Origin.Cluster()
					if at == "" {
						at = m.Origin.String()
					}
					return name(m) + " (" + at + ")"
				}
				said = append(said, fmt.Sprintf("%s loses to %s: %s: %s", where(n.Meta), where(n.Other), n.Path, n.Message))
			}
			if !slices.EqualFunc(said, test.said, func(got, want string) bool {
				i := strings.LastIndex(want, ": ")
				return strings.HasPrefix(got, want[:i]) && strings.Contains(got, want[i+2:])
			}) {
				t.Errorf("said %q\nwant %q", said, test.said)
			}
		})
	}
}

// shown formats ports and endpoints.
func shown(s *Service) string {
	var out []string
	for _, p := range s.Ports {
		var addresses []string
		for _, e := range s.Endpoints {
			if n := e.PortOn(p); n != 0 {
				addresses = append(addresses, fmt.Sprintf("%s:%d", e.Address, n))
			}
		}
		out = append(out, fmt.Sprintf("%s/%d/%s: %s", p.Name, p.Number, p.Protocol, strings.Join(addresses, " ")))
	}
	return strings.Join(out, ", ")
}

// With accepts a change of endpoints for a host of two clusters too, and gives the same result as a new mesh.
func TestEndpointsOfUnitedServicesTakeTheShortPath(t *testing.T) {
	east, west := registered("east", "10.1.0.1"), registered("west", "10.2.0.1")
	m := meshOf(nil, east, west)
	moved := registered("west", "10.2.0.9")
	next, ok := m.With([]*Service{moved, registered("east", "10.1.0.9")}, nil)
	if !ok {
		t.Fatal("it takes the long path")
	}
	want := meshOf(nil, registered("east", "10.1.0.9"), moved)
	if diff := cmp.Diff(want.Service("x.test"), next.Service("x.test")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d := next.Delta().Services; len(d) != 1 || d[0] != next.Service("x.test") {
		t.Errorf("the delta is %v", d)
	}
	if got := next.ServicesAt(netip.MustParseAddr("10.2.0.9")); len(got) != 1 {
		t.Errorf("the services there are %v", got)
	}
	again, ok := next.With([]*Service{registered("west", "10.2.0.7")}, nil)
	if !ok || shown(again.Service("x.test")) != "http/80/HTTP: 10.1.0.9:80 10.2.0.7:80" {
		t.Errorf("after another change it is %t, %s", ok, shown(again.Service("x.test")))
	}
	if _, ok := next.With([]*Service{registered("west", "10.2.0.7", func(s *Service) { s.Ports[0].Number = 90 })}, nil); ok {
		t.Error("another port takes the short path")
	}
}

// Services of Kubernetes have selectors. With accepts a change of their endpoints, and keeps the workloads that they
// select.
func TestEndpointsOfSelectingServicesTakeTheShortPath(t *testing.T) {
	labels := map[string]string{"app": "x"}
	selecting := func(s *Service) { s.Selector = labels }
	vm := object("WorkloadEntry", "a", "vm", 1, &networking.WorkloadEntry{Address: "10.9.0.2", Labels: labels})
	m := meshOf([]*Object{vm}, registered("east", "10.1.0.1", selecting), registered("west", "10.2.0.1", selecting))
	moved := registered("west", "10.2.0.9", selecting)
	next, ok := m.With([]*Service{moved}, nil)
	if !ok {
		t.Fatal("it takes the long path")
	}
	want := meshOf([]*Object{vm}, registered("east", "10.1.0.1", selecting), moved)
	if diff := cmp.Diff(want.Service("x.test"), next.Service("x.test")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := shown(next.Service("x.test")); !strings.Contains(got, "10.9.0.2:80") {
		t.Errorf("the service has %s, want the WorkloadEntry too", got)
	}
	for what, change := range map[string]func(*Service){
		"another selector": func(s *Service) { s.Selector = map[string]string{"app": "y"} },
		"no selector":      func(s *Service) { s.Selector = nil },
	} {
		if _, ok := m.With([]*Service{registered("west", "10.2.0.9", change)}, nil); ok {
			t.Errorf("%s takes the short path", what)
		}
	}
}

// A certificate name of a service account contains the trust domain of the mesh, or an alias of it.
func TestSubjects(t *testing.T) {
	s := registered("east", "10.1.0.1", func(s *Service) { s.SubjectAltNames, s.Accounts = []string{"x.example.com"}, []string{"shop/one"} })
	for name, test := range map[string]struct {
		config *meshconfig.MeshConfig
		want   string
	}{
		"by default": {nil, "spiffe://cluster.local/ns/shop/sa/one x.example.com"},
		"named": {
			&meshconfig.MeshConfig{TrustDomain: "corp", TrustDomainAliases: []string{"old"}},
			"spiffe://corp/ns/shop/sa/one spiffe://old/ns/shop/sa/one x.example.com",
		},
	} {
		if got := strings.Join((Settings{Config: test.config}).Subjects(s), " "); got != test.want {
			t.Errorf("%s: the names are %s, want %s", name, got, test.want)
		}
	}
}

// Ignored fields of a record are noted, with the field's path.
func TestIgnoredFieldsAreNoted(t *testing.T) {
	m := meshOf(nil, registered("east", "10.1.0.1", func(s *Service) { s.Ignored = []string{"spec.sessionAffinity is ClientIP, which is not read"} }))
	notes := m.Notes()
	if len(notes) != 1 || notes[0].Code != IgnoredField || notes[0].Path != "spec.sessionAffinity" || notes[0].Meta.Name != "x" || notes[0].Meta.Origin.Record == nil {
		t.Errorf("the notes are %+v", notes)
	}
}

// If many Pods of a namespace change at once, as in a rolling restart, the namespace's workloads are copied once, not
// for each Pod.
func TestManyWorkloadsCostOneCopy(t *testing.T) {
	const all = 4000
	pods := make([]*Workload, all)
	for i := range pods {
		pods[i] = &Workload{Registry: "Kubernetes", Namespace: "a", Name: fmt.Sprint(i)}
	}
	m := New(slices.Values([]Group{{Workloads: pods}}))
	cost := func(n int) uint64 {
		changes := make([]WorkloadChange, n)
		for i := range changes {
			changes[i] = WorkloadChange{From: pods[i], To: &Workload{Registry: "Kubernetes", Namespace: "a", Name: fmt.Sprint(i)}}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		next, ok := m.With(nil, nil, changes...)
		runtime.ReadMemStats(&after)
		if !ok || len(next.workloads["a"]) != all || next.workloads["a"][all-n].Name != "0" {
			t.Fatalf("%d changes: the short path is taken: %t, there are %d workloads", n, ok, len(next.workloads["a"]))
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	one, many := cost(1), cost(1000)
	t.Logf("one change allocates %d bytes, a thousand %d", one, many)
	if many > 20*one {
		t.Errorf("a thousand changes allocate %d bytes, more than twenty times the %d of one", many, one)
	}
}

// Selectors select workloads of any registry. A registered service selects none of its own registry, which lists its
// endpoints.
func TestSelectorsTakeWorkloadsOfAnyRegistry(t *testing.T) {
	labels := map[string]string{"app": "x"}
	pod := &Workload{
		Registry: "Kubernetes", Cluster: "east", Namespace: "a", Name: "x-1", Addresses: []string{"10.1.0.1", "fd00::1"}, Labels: labels,
		ServiceAccount: "runner", Locality: Locality{Region: "r"}, Network: "n1", Weight: 2, Health: HealthDraining,
	}
	instance := &Workload{Registry: "Consul", Namespace: "a", Name: "x-2", Addresses: []string{"10.3.0.1"}, Labels: labels, Health: HealthUnhealthy}
	elsewhere := &Workload{Registry: "Consul", Namespace: "b", Name: "x-3", Addresses: []string{"10.3.0.2"}, Labels: labels}
	entry := object("WorkloadEntry", "a", "vm", 1, &networking.WorkloadEntry{Address: "10.9.0.2", Labels: labels, ServiceAccount: "vm"})
	entry.Labels = map[string]string{"app": "other", "tier": "back"}
	declared := entryOf(func(e *networking.ServiceEntry) {
		e.Hosts, e.Endpoints, e.WorkloadSelector = []string{"declared.test"}, nil, &networking.WorkloadSelector{Labels: labels}
	})
	service := registered("west", "10.2.0.1", func(s *Service) { s.Selector = labels })
	group := Group{
		Services: []*Service{service}, Workloads: []*Workload{pod, instance, elsewhere}, Objects: []*Object{entry, declared},
	}
	m := New(slices.Values([]Group{group}))
	for host, want := range map[string]string{
		"declared.test": "web/80/HTTP: 10.1.0.1:80 10.3.0.1:80 10.9.0.2:80",
		"x.test":        "http/80/HTTP: 10.2.0.1:80 10.3.0.1:80 10.9.0.2:80",
	} {
		if got := shown(m.Service(host)); got != want {
			t.Errorf("%s has %s\nwant %s", host, got, want)
		}
	}
	want := []Endpoint{
		{
			Address: "10.1.0.1", Labels: labels, Cluster: "east", ServiceAccount: "runner", Locality: Locality{Region: "r"}, Network: "n1", Weight: 2,
			Health: HealthDraining,
		},
		{Address: "10.3.0.1", Labels: labels, Health: HealthUnhealthy},
		{Address: "10.9.0.2", Labels: map[string]string{"app": "x", "tier": "back"}, ServiceAccount: "vm", Proxied: true},
	}
	if diff := cmp.Diff(want, m.Service("declared.test").Endpoints); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if next := m.Next(slices.Values([]Group{group})); next.Service("declared.test") != m.Service("declared.test") {
		t.Error("of the same workloads another service is made")
	}
	healthy := *instance
	healthy.Health = HealthHealthy
	group.Workloads = []*Workload{pod, &healthy, elsewhere}
	if got := m.Next(slices.Values([]Group{group})).Service("declared.test").Endpoints[1].Health; got != HealthHealthy {
		t.Errorf("after a change of health it is %s", got)
	}
}

// With accepts new, changed and removed workloads that no service selects, and no others.
func TestWorkloadsThatNobodySelectsTakeTheShortPath(t *testing.T) {
	selecting := entryOf(func(e *networking.ServiceEntry) {
		e.Endpoints, e.WorkloadSelector = nil, &networking.WorkloadSelector{Labels: map[string]string{"app": "x"}}
	})
	pod := func(namespace, app, address string) *Workload {
		return &Workload{Namespace: namespace, Name: "p", Addresses: []string{address}, Labels: map[string]string{"app": app}}
	}
	other, taken := pod("a", "y", "10.0.0.1"), pod("a", "x", "10.0.0.2")
	m := New(slices.Values([]Group{{Objects: []*Object{selecting}, Workloads: []*Workload{other, taken}}}))
	for what, test := range map[string]struct {
		before, now *Workload
		want        bool
	}{
		"comes":                     {nil, pod("a", "z", "10.0.0.3"), true},
		"changes":                   {other, pod("a", "y", "10.0.0.4"), true},
		"goes":                      {other, nil, true},
		"in another namespace":      {nil, pod("b", "x", "10.0.0.3"), true},
		"comes, and is selected":    {nil, pod("a", "x", "10.0.0.3"), false},
		"goes, and was selected":    {taken, nil, false},
		"is selected from now on":   {other, pod("a", "x", "10.0.0.1"), false},
		"is no longer selected":     {taken, pod("a", "y", "10.0.0.2"), false},
		"changes, and was selected": {taken, pod("a", "x", "10.0.0.9"), false},
	} {
		t.Run(what, func(t *testing.T) {
			group := func(w *Workload) (g Group) {
				if w != nil {
					g.Workloads = []*Workload{w}
				}
				return g
			}
			next, ok := m.With(nil, nil, WorkloadChanges(group(test.before), group(test.now))...)
			if ok != test.want {
				t.Fatalf("it takes the short path: %t, want %t", ok, test.want)
			}
			if !ok {
				return
			}
			if d := next.Delta(); d.Since != m.Delta().ID || len(d.Services)+len(d.Rules) > 0 {
				t.Errorf("the delta is %+v", d)
			}
			if test.now != nil && !slices.Contains(next.workloads[test.now.Namespace], test.now) ||
				test.before != nil && slices.Contains(next.workloads["a"], test.before) {
				t.Errorf("the workloads are %v", next.workloads)
			}
		})
	}
}

func TestGroupSame(t *testing.T) {
	group := func() Group {
		return Group{
			Services: []*Service{registered("east", "10.1.0.1")}, Workloads: []*Workload{{Name: "w", Labels: map[string]string{"a": "b"}}},
			Objects: []*Object{entryOf()},
		}
	}
	for name, change := range map[string]func(*Group){
		"an endpoint's health": func(g *Group) { g.Services[0].Endpoints[0].Health = HealthDraining },
		"a record's version":   func(g *Group) { g.Services[0].Origin.Record.Version = "8" },
		"a workload's label":   func(g *Group) { g.Workloads[0].Labels["a"] = "c" },
		"an object's spec":     func(g *Group) { g.Objects[0].Spec.(*networking.ServiceEntry).Ports[0].Number = 81 },
		"an object's line":     func(g *Group) { g.Objects[0].Origin.Line = 5 },
		"an object less":       func(g *Group) { g.Objects = nil },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := group(), group()
			if !a.Same(b) {
				t.Fatal("equal groups are not the same")
			}
			if change(&b); a.Same(b) {
				t.Error("it is not seen")
			}
		})
	}
}

func TestOriginString(t *testing.T) {
	for want, origin := range map[string]Origin{
		"":       {},
		"a.y:3":  {File: "a.y", Line: 3},
		"uid u1": {Record: &Record{UID: "u1"}},
		"cluster east, uid u1, generation 2, version 9": {Record: &Record{Cluster: "east", UID: "u1", Generation: 2, Version: "9"}},
	} {
		if got := origin.String(); got != want {
			t.Errorf("%+v is %q, want %q", origin, got, want)
		}
	}
}
