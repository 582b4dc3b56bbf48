package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// given returns a mesh with small bounds.
func boundedMesh(bounds Bounds, objects ...*Object) *Mesh {
	return NewOf(Settings{Domain: DefaultDomain, Bounds: &bounds}, slices.Values([]Group{{Objects: objects}}))
}

// entry is a ServiceEntry with ports from 80 on, of HTTP, and endpoints.
func givenEntry(namespace, name string, day, hosts, ports, endpoints int, exportTo ...string) *Object {
	s := &networking.ServiceEntry{Resolution: networking.ServiceEntry_STATIC, ExportTo: exportTo}
	for i := range hosts {
		s.Hosts = append(s.Hosts, fmt.Sprintf("%s-%d.%s.test", name, i, namespace))
	}
	for i := range ports {
		s.Ports = append(s.Ports, &networking.ServicePort{Name: fmt.Sprint("http-", i), Number: uint32(80 + i), Protocol: "HTTP"})
	}
	for i := range endpoints {
		s.Endpoints = append(s.Endpoints, &networking.WorkloadEntry{Address: fmt.Sprintf("10.0.0.%d", i+1)})
	}
	return object("ServiceEntry", namespace, name, day, s)
}

// seenFrom returns the hosts that a namespace sees.
func seenFrom(m *Mesh, namespace string) string {
	var out []string
	for _, s := range m.Scope(namespace, nil).Services() {
		out = append(out, strings.TrimSuffix(s.Host, ".test"))
	}
	return strings.Join(out, " ")
}

// What a namespace gives to others beyond a bound is for its own proxies only, the youngest first, and is named. Other namespaces, and the
// root namespace, are not concerned.
func TestWhatANamespaceGivesIsBounded(t *testing.T) {
	wide := Bounds{100, 100, 1000, 100, 100, 100, 1e6, 1e6, 1e6}
	with := func(c cost, n int) Bounds {
		out := wide
		out[c] = n
		return out
	}
	bank := givenEntry("bank", "pay", 9, 1, 1, 1)
	rule := func(name string, day, hosts, n int) *Object {
		v := &networking.VirtualService{}
		for i := range hosts {
			v.Hosts = append(v.Hosts, fmt.Sprintf("%s-%d.evil.test", name, i))
		}
		for range n {
			v.Http = append(v.Http, &networking.HTTPRoute{DirectResponse: &networking.HTTPDirectResponse{Status: 200}})
		}
		return object("VirtualService", "evil", name, day, v)
	}
	matching := func(n int, regex string) *Object {
		r := &networking.HTTPRoute{DirectResponse: &networking.HTTPDirectResponse{Status: 200}}
		for i := range n {
			m := &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: fmt.Sprint("/", i)}}
			if regex != "" {
				m = &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: regex}}
			}
			r.Match = append(r.Match, &networking.HTTPMatchRequest{Uri: m})
		}
		return object("VirtualService", "evil", "r", 1, &networking.VirtualService{Hosts: []string{"r-0.evil.test"}, Http: []*networking.HTTPRoute{r}})
	}
	serversAt := func(n int, encrypted bool) *Object {
		g := &networking.Gateway{}
		for range n {
			s := &networking.Server{Port: &networking.Port{Number: 1, Protocol: "HTTP"}, Hosts: []string{"*"}}
			if encrypted {
				s.Tls = &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE}
			}
			g.Servers = append(g.Servers, s)
		}
		return object("Gateway", "evil", "g", 1, g)
	}
	policy := func(p *networking.TrafficPolicy) *Object {
		return object("DestinationRule", "evil", "a", 1, &networking.DestinationRule{Host: "*.evil.test", TrafficPolicy: p})
	}
	simple := &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}
	ring := &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{}}}
	uneven := func(o *Object) *Object {
		o.Spec.(*networking.ServiceEntry).Endpoints[0].Weight = 1000
		return o
	}
	for name, row := range map[string]struct {
		bounds  Bounds
		objects []*Object
		want    string // hosts that bank sees
		notes   string
	}{
		"within":              {wide, []*Object{givenEntry("evil", "a", 1, 2, 3, 4)}, "pay-0.bank a-0.evil a-1.evil", ""},
		"one object of ports": {with(listeners, 5), []*Object{givenEntry("evil", "a", 1, 1, 6, 1)}, "pay-0.bank", "ServiceEntry/evil/a"},
		"many of other ports": {with(listeners, 5), []*Object{givenEntry("evil", "a", 1, 1, 5, 1), givenEntry("evil", "b", 2, 1, 6, 1), givenEntry("evil", "c", 3, 1, 1, 1)}, "pay-0.bank a-0.evil c-0.evil", "ServiceEntry/evil/b"},
		"the oldest first":    {with(listeners, 5), []*Object{givenEntry("evil", "a", 2, 1, 5, 1), givenEntry("evil", "b", 1, 1, 6, 1)}, "pay-0.bank a-0.evil", "ServiceEntry/evil/b"},
		"hosts":               {with(clusters, 3), []*Object{givenEntry("evil", "a", 1, 5, 1, 1)}, "pay-0.bank a-0.evil a-1.evil a-2.evil", "ServiceEntry/evil/a"},
		"hosts of objects":    {with(clusters, 2), []*Object{givenEntry("evil", "a", 1, 1, 1, 1), givenEntry("evil", "b", 2, 1, 1, 1), givenEntry("evil", "c", 3, 1, 1, 1)}, "pay-0.bank a-0.evil b-0.evil", "ServiceEntry/evil/c"},
		"hosts × ports":       {with(clusters, 5), []*Object{givenEntry("evil", "a", 1, 2, 3, 1)}, "pay-0.bank a-0.evil", "ServiceEntry/evil/a"},
		"subsets": {with(clusters, 3), []*Object{givenEntry("evil", "a", 1, 1, 1, 1), object("DestinationRule", "evil", "a", 1, &networking.DestinationRule{
			Host: "*.evil.test", Subsets: []*networking.Subset{{Name: "1"}, {Name: "2"}, {Name: "3"}},
		})}, "pay-0.bank", "ServiceEntry/evil/a"},
		"endpoints":      {with(endpoints, 9), []*Object{givenEntry("evil", "a", 1, 1, 1, 10), givenEntry("evil", "b", 2, 1, 1, 9)}, "pay-0.bank b-0.evil", "ServiceEntry/evil/a"},
		"of its own":     {with(listeners, 5), []*Object{givenEntry("evil", "a", 1, 1, 50, 1, "."), givenEntry("evil", "b", 2, 1, 1, 1)}, "pay-0.bank b-0.evil", ""},
		"of the root":    {with(listeners, 5), []*Object{givenEntry("istio-system", "a", 1, 1, 50, 1)}, "pay-0.bank a-0.istio-system", ""},
		"routes":         {with(routes, 10), []*Object{givenEntry("evil", "a", 1, 1, 1, 1), rule("r", 1, 2, 5), rule("s", 2, 1, 1)}, "pay-0.bank a-0.evil", "VirtualService/evil/s"},
		"routes × ports": {with(routes, 10), []*Object{givenEntry("evil", "r", 1, 1, 4, 1), rule("r", 1, 1, 3)}, "pay-0.bank r-0.evil", "VirtualService/evil/r"},
		"matches":        {with(routes, 10), []*Object{givenEntry("evil", "r", 1, 1, 1, 1), matching(11, "")}, "pay-0.bank r-0.evil", "VirtualService/evil/r"},
		"routes × services of a wildcard": {with(routes, 10), []*Object{givenEntry("evil", "a", 1, 6, 1, 1), object("VirtualService", "evil", "r", 1, &networking.VirtualService{
			Hosts: []string{"*.test"}, Http: matching(2, "").Spec.(*networking.VirtualService).Http,
		})}, "pay-0.bank a-0.evil a-1.evil a-2.evil a-3.evil a-4.evil a-5.evil", "VirtualService/evil/r"},
		"routes × servers": {with(routes, 10), []*Object{serversAt(5, false), object("VirtualService", "evil", "r", 2, &networking.VirtualService{
			Hosts: []string{"a.test"}, Gateways: []string{"g"}, Http: matching(2, "").Spec.(*networking.VirtualService).Http,
		})}, "pay-0.bank", "VirtualService/evil/r"},
		"routes × ServiceEntries of another namespace": {with(routes, 10), []*Object{givenEntry("other", "o", 1, 20, 1, 1, "."), object("VirtualService", "evil", "r", 1, &networking.VirtualService{
			Hosts: []string{"*.other.test"}, Http: matching(2, "").Spec.(*networking.VirtualService).Http,
		})}, "pay-0.bank", ""},
		"subsets of a rule behind one that few see": {with(clusters, 3), []*Object{
			givenEntry("evil", "a", 1, 1, 1, 1), object("DestinationRule", "evil", "a", 1, &networking.DestinationRule{Host: "a-0.evil.test", ExportTo: []string{"decoy"}}),
			object("DestinationRule", "evil", "b", 2, &networking.DestinationRule{Host: "*.evil.test", Subsets: []*networking.Subset{{Name: "1"}, {Name: "2"}, {Name: "3"}}}),
		}, "pay-0.bank", "ServiceEntry/evil/a"},
		"classes of characters": {with(instructions, 1000), []*Object{givenEntry("evil", "r", 1, 1, 1, 1), matching(3, "[acegikmoqsuwy]{50}")}, "pay-0.bank r-0.evil", "VirtualService/evil/r"},
		"regular expressions":   {with(instructions, 1000), []*Object{givenEntry("evil", "r", 1, 1, 1, 1), matching(3, "(ab|cd){100}")}, "pay-0.bank r-0.evil", "VirtualService/evil/r"},
		"bytes × ports": {with(bytes, 5000), []*Object{givenEntry("evil", "r", 1, 1, 3, 1), object("VirtualService", "evil", "r", 1, &networking.VirtualService{
			Hosts: []string{"r-0.evil.test"}, Http: []*networking.HTTPRoute{{DirectResponse: &networking.HTTPDirectResponse{
				Status: 200, Body: &networking.HTTPBody{Specifier: &networking.HTTPBody_String_{String_: strings.Repeat("x", 2000)}},
			}}},
		})}, "pay-0.bank r-0.evil", "VirtualService/evil/r"},
		"servers with TLS":        {with(chains, 2), []*Object{serversAt(3, true)}, "pay-0.bank", "Gateway/evil/g"},
		"servers without":         {with(chains, 2), []*Object{serversAt(3, false)}, "pay-0.bank", ""},
		"roots":                   {with(roots, 2), []*Object{givenEntry("evil", "a", 1, 3, 1, 1), policy(&networking.TrafficPolicy{Tls: simple})}, "pay-0.bank a-0.evil a-1.evil", "ServiceEntry/evil/a"},
		"roots, at one port":      {with(roots, 2), []*Object{givenEntry("evil", "a", 1, 2, 2, 1), policy(&networking.TrafficPolicy{PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{{Port: &networking.PortSelector{Number: 81}, Tls: simple}}})}, "pay-0.bank a-0.evil a-1.evil", ""},
		"roots of a secret":       {with(roots, 2), []*Object{givenEntry("evil", "a", 1, 3, 1, 1), policy(&networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, CredentialName: "c"}})}, "pay-0.bank a-0.evil a-1.evil a-2.evil", ""},
		"names of certificates":   {with(bytes, 1500), []*Object{givenEntry("evil", "a", 1, 3, 1, 1), policy(&networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL, SubjectAltNames: slices.Repeat([]string{"x"}, 6)}})}, "pay-0.bank a-0.evil a-1.evil", "ServiceEntry/evil/a"},
		"rings":                   {with(places, 3000), []*Object{givenEntry("evil", "a", 1, 3, 1, 1), policy(&networking.TrafficPolicy{LoadBalancer: ring})}, "pay-0.bank a-0.evil a-1.evil", "ServiceEntry/evil/a"},
		"rings of uneven weights": {with(places, 3000), []*Object{uneven(givenEntry("evil", "a", 1, 1, 1, 2)), policy(&networking.TrafficPolicy{LoadBalancer: ring})}, "pay-0.bank", "ServiceEntry/evil/a"},
		"ports of a Gateway":      {with(listeners, 1), []*Object{object("Gateway", "evil", "g", 1, &networking.Gateway{Servers: []*networking.Server{{Port: &networking.Port{Number: 1}}, {Port: &networking.Port{Number: 2}}}})}, "pay-0.bank", "Gateway/evil/g"},
	} {
		t.Run(name, func(t *testing.T) {
			m := boundedMesh(row.bounds, append(row.objects, bank)...)
			sorted := func(text string) string {
				all := strings.Fields(text)
				slices.Sort(all)
				return strings.Join(all, " ")
			}
			if got := sorted(seenFrom(m, "bank")); got != sorted(row.want) {
				t.Errorf("bank sees %s, want %s", got, row.want)
			}
			if got, want := strings.Count(seenFrom(m, "evil"), ".evil"), strings.Count(seenFrom(boundedMesh(Bounds{1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9, 1e9}, append(row.objects, bank)...), "evil"), ".evil"); got != want {
				t.Errorf("evil sees %d of its own hosts, want %d", got, want)
			}
			var notes []string
			for _, n := range m.Notes() {
				if n.Code == TooMuch {
					notes = append(notes, n.Meta.Key())
				}
			}
			if got := strings.Join(notes, " "); got != row.notes {
				t.Errorf("notes of %q, want %q", got, row.notes)
			}
			for _, v := range m.virtualServices {
				kept := strings.Contains(row.notes, v.Key())
				if m.ruleVisible(v, "bank") == kept || !m.ruleVisible(v, "evil") {
					t.Errorf("%s is visible to bank: %v", v.Key(), !kept)
				}
			}
			for _, g := range m.gateways {
				if got := len(m.GatewaysAt("bank", nil)); got != 0 && strings.Contains(row.notes, g.Key()) || len(m.GatewaysAt("evil", nil)) != 1 {
					t.Errorf("%d Gateways at bank's", got)
				}
			}
		})
	}
}

// Namespaces of twice the size of the largest one of make bench-ads, and of kinds that the benchmark has not, give all that they have.
func TestLargeNamespacesAreServed(t *testing.T) {
	simple := &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}}
	ring := &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{LbPolicy: &networking.LoadBalancerSettings_ConsistentHash{ConsistentHash: &networking.LoadBalancerSettings_ConsistentHashLB{}}}}
	rule := func(namespace, name, host string, gateways ...string) *Object {
		return object("VirtualService", namespace, name, 1, &networking.VirtualService{Hosts: []string{host}, Gateways: gateways, Http: []*networking.HTTPRoute{{
			Match: []*networking.HTTPMatchRequest{{Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: "/v[0-9]{1,3}/(users|orders)/[^/]+"}}}},
			Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: host}}},
		}}})
	}
	objects := []*Object{
		givenEntry("egress", "out", 1, 300, 1, 1), object("DestinationRule", "egress", "out", 1, &networking.DestinationRule{Host: "*.egress.test", TrafficPolicy: simple}),
		givenEntry("hash", "ring", 1, 1000, 1, 10), object("DestinationRule", "hash", "ring", 1, &networking.DestinationRule{Host: "*.hash.test", TrafficPolicy: ring}),
	}
	for i := range 2000 {
		name := fmt.Sprintf("service-%04d", i)
		objects = append(objects, givenEntry("bench", name, 1, 1, 1, 10))
		if i%10 == 0 {
			host := name + "-0.bench.test"
			objects = append(objects, rule("bench", name, host), object("DestinationRule", "bench", name, 1, &networking.DestinationRule{
				Host: host, Subsets: []*networking.Subset{{Name: "v1", Labels: map[string]string{"version": "v1"}}, {Name: "v2", Labels: map[string]string{"version": "v2"}}},
			}))
		}
	}
	shared := &networking.Gateway{} // a server and a rule for each host
	for i := range 1000 {
		host := fmt.Sprintf("h%d.customers.test", i)
		shared.Servers = append(shared.Servers, &networking.Server{
			Port: &networking.Port{Number: 443, Protocol: "HTTPS"}, Hosts: []string{host}, Tls: &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CredentialName: host},
		})
		objects = append(objects, rule("customers", fmt.Sprint("h", i), host, "customers/g", "mesh"))
	}
	objects = append(objects, object("Gateway", "customers", "g", 1, shared))
	m := NewOf(Settings{Domain: DefaultDomain}, slices.Values([]Group{{Objects: objects}}))
	if len(m.given.kept) > 0 {
		t.Errorf("%d are for their own namespace only, of %v: %.500v", len(m.given.kept), m.given.spent, m.given.kept)
	}
	for namespace, spent := range m.given.spent {
		t.Logf("%s: %v", namespace, spent)
	}
	if got := len(m.Scope("bank", nil).Services()); got != 2000+1300 {
		t.Errorf("bank sees %d hosts, want 3300", got)
	}
}

// What DestinationRules and WorkloadEntries add to a service of a registry counts, and the service itself does not.
func TestWhatIsAddedToRegistriesIsBounded(t *testing.T) {
	wide := Bounds{100, 100, 1000, 100, 100, 100, 1e6, 1e6, 1e6}
	service := func(n int) *Service {
		s := &Service{Right: RightFull, Registry: "Kubernetes", Host: "web.evil.svc.cluster.local", Namespace: "evil", Name: "web", Selector: map[string]string{"app": "web"}, Ports: []Port{{Name: "http", Number: 80, Protocol: HTTP}}}
		for i := range n {
			s.Endpoints = append(s.Endpoints, Endpoint{Address: fmt.Sprintf("10.0.0.%d", i+1)})
		}
		return s
	}
	headless := func(s *Service) *Service {
		s.Headless, s.Ports[0].Protocol = true, TCP
		return s
	}
	subsets := func(n int, exportTo ...string) *Object {
		r := &networking.DestinationRule{Host: "web", ExportTo: exportTo}
		for i := range n {
			r.Subsets = append(r.Subsets, &networking.Subset{Name: fmt.Sprint("v", i)})
		}
		return object("DestinationRule", "evil", "d", 1, r)
	}
	entry := func(n int) *Object {
		return object("WorkloadEntry", "evil", fmt.Sprint("w", n), n, &networking.WorkloadEntry{Address: fmt.Sprintf("10.0.1.%d", n), Labels: map[string]string{"app": "web"}})
	}
	for name, row := range map[string]struct {
		cost    cost
		bound   int
		service *Service
		objects []*Object
		notes   string // and whether bank sees the service
	}{
		"itself":                  {endpoints, 2, service(9), nil, ""},
		"few subsets":             {clusters, 4, service(1), []*Object{subsets(4)}, ""},
		"subsets":                 {clusters, 3, service(1), []*Object{subsets(4)}, "DestinationRule/evil/d"},
		"at home":                 {clusters, 3, service(1), []*Object{subsets(4, ".")}, ""},
		"endpoints × subsets":     {endpoints, 19, service(5), []*Object{subsets(4)}, "DestinationRule/evil/d"},
		"few WorkloadEntries":     {endpoints, 2, service(9), []*Object{entry(1), entry(2)}, ""},
		"WorkloadEntries":         {endpoints, 2, service(9), []*Object{entry(1), entry(2), entry(3)}, "WorkloadEntry/evil/w1 WorkloadEntry/evil/w2 WorkloadEntry/evil/w3"},
		"listeners of endpoints":  {listeners, 2, headless(service(9)), []*Object{entry(1), entry(2), entry(3)}, "WorkloadEntry/evil/w1 WorkloadEntry/evil/w2 WorkloadEntry/evil/w3"},
		"few such endpoints":      {listeners, 2, headless(service(9)), []*Object{entry(1), entry(2)}, ""},
		"WorkloadEntries subsets": {endpoints, 5, service(1), []*Object{subsets(2), entry(1), entry(2)}, "DestinationRule/evil/d WorkloadEntry/evil/w1 WorkloadEntry/evil/w2"},
	} {
		t.Run(name, func(t *testing.T) {
			bounds := wide
			bounds[row.cost] = row.bound
			m := NewOf(Settings{Domain: DefaultDomain, Bounds: &bounds}, slices.Values([]Group{{Services: []*Service{row.service}, Objects: row.objects}}))
			if sees := seenFrom(m, "bank") != ""; sees != (row.notes == "") || seenFrom(m, "evil") == "" {
				t.Errorf("bank sees the service: %v", sees)
			}
			var notes []string
			for _, n := range m.Notes() {
				if n.Code == TooMuch {
					notes = append(notes, n.Meta.Key())
				}
			}
			slices.Sort(notes)
			if got := strings.Join(notes, " "); got != row.notes {
				t.Errorf("notes of %q, want %q", got, row.notes)
			}
		})
	}
}

// A change of endpoints or routes that may change what is given takes the long path, so that what is served depends on the objects only.
func TestGivenIsTheSameAfterChanges(t *testing.T) {
	bounds := Bounds{100, 100, 5, 100, 100, 100, 1e6, 1e6, 1e6}
	old, young := func(n int) *Object { return givenEntry("evil", "old", 1, 1, 1, n) }, givenEntry("evil", "young", 2, 1, 1, 2)
	m := boundedMesh(bounds, old(1), young)
	for i, n := range []int{2, 3, 4, 5, 6, 4, 2, 1} {
		next, short := m.With(nil, []*Object{old(n)})
		if fits := n <= 3; short != (fits && (i == 0 || m.given.spent["evil"][endpoints] <= 5)) {
			t.Errorf("%d endpoints: the short path is %v", n, short)
		}
		if !short {
			next = m.Next(slices.Values([]Group{{Objects: []*Object{old(n), young}}}))
		}
		fresh := boundedMesh(bounds, old(n), young)
		if got, want := seenFrom(next, "bank"), seenFrom(fresh, "bank"); got != want || next.given.spent["evil"] != fresh.given.spent["evil"] {
			t.Errorf("%d endpoints: bank sees %q of %v, want %q of %v", n, got, next.given.spent, want, fresh.given.spent)
		}
		m = next
	}
}
