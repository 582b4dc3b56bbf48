package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shifting is a mesh of which endpoints and workloads move, in the groups of its sources.
type shifting struct {
	random *rand.Rand
	groups map[string]Group
}

func newShifting(seed uint64) *shifting {
	s := &shifting{rand.New(rand.NewPCG(seed, 1)), map[string]Group{}}
	for i := range 12 {
		one := &Service{
			Right: RightFull, Registry: "Kubernetes", Cluster: []string{"east", "west"}[i%2], Namespace: fmt.Sprint("n", i%3), Name: fmt.Sprint("s", i/2),
			Host: fmt.Sprintf("s%d.test", i/2), Resolution: ResolutionStatic, Headless: i/2 == 2, Ports: []Port{{Name: "tcp", Number: 80, Protocol: TCP}},
		}
		if i < 6 {
			one.Namespace = "n0" // both clusters declare it
		}
		if i/2 == 5 {
			one.Registry, one.Selector = "Consul", map[string]string{"app": "x"}
		}
		s.groups[fmt.Sprintf("service/%02d", i)] = Group{Services: []*Service{one}}
	}
	return s
}

func (s *shifting) address() string {
	return []string{"10.0.0.", "10.0.0.", "10.0.0.", "::ffff:10.0.0.", "127.0.0.", "host"}[s.random.IntN(6)] + fmt.Sprint(1+s.random.IntN(6))
}

// edit changes the endpoints of some services, and some workloads. It returns what With takes.
func (s *shifting) edit() (services []*Service, workloads []WorkloadChange) {
	for range s.random.IntN(3) {
		key := fmt.Sprintf("service/%02d", s.random.IntN(12))
		one := *s.groups[key].Services[0]
		one.Endpoints = nil
		for range s.random.IntN(4) {
			one.Endpoints = append(one.Endpoints, Endpoint{Address: s.address()})
		}
		services = slices.DeleteFunc(services, func(o *Service) bool { return o == s.groups[key].Services[0] })
		s.groups[key] = Group{Services: []*Service{&one}}
		services = append(services, &one)
	}
	for range 1 + s.random.IntN(3) {
		key := fmt.Sprintf("pod/%02d", s.random.IntN(9))
		before, now := s.groups[key], Group{}
		if s.random.IntN(3) > 0 {
			now.Workloads = []*Workload{{
				Registry: "Kubernetes", Cluster: fmt.Sprint("c", s.random.IntN(2)), Namespace: fmt.Sprint("n", s.random.IntN(2)), Name: fmt.Sprint("w", s.random.IntN(4)),
				Addresses: []string{s.address(), s.address()}, Locality: Locality{Zone: key},
			}}
			if s.random.IntN(20) == 0 {
				now.Workloads[0].Labels = map[string]string{"app": "x"}
			}
		}
		if s.groups[key] = now; now.Empty() {
			delete(s.groups, key)
		}
		for _, c := range WorkloadChanges(before, now) { // as the state does, from the last mesh to this one
			if i := slices.IndexFunc(workloads, func(o WorkloadChange) bool { return c.From != nil && o.To == c.From }); i >= 0 {
				workloads = slices.Delete(workloads, i, i+1)
			} else {
				workloads = append(workloads, c)
			}
		}
	}
	return services, workloads
}

func (s *shifting) inOrder(yield func(Group) bool) {
	for _, key := range slices.Sorted(maps.Keys(s.groups)) {
		if !yield(s.groups[key]) {
			return
		}
	}
}

// looks returns the answers to look-ups that With keeps: by address, by name, and whether a service has local addresses.
func looks(m *Mesh) (out []string) {
	for i := range 8 {
		for _, form := range []string{"10.0.0.", "127.0.0."} {
			ip := netip.MustParseAddr(form + fmt.Sprint(i))
			for _, s := range m.ServicesAt(ip) {
				out = append(out, fmt.Sprint(ip, " ", s.declaration(), s.Endpoints))
			}
			for _, s := range m.ServicesAt(ip, netip.MustParseAddr("10.0.0.1")) {
				out = append(out, fmt.Sprint(ip, " or another ", s.declaration()))
			}
		}
	}
	for _, s := range m.services {
		out = append(out, fmt.Sprint(s.declaration(), s.Endpoints, m.HasLocal(s), len(m.bare(s).Endpoints), m.bare(s).declaration()))
	}
	for _, namespace := range slices.Sorted(maps.Keys(m.residents)) {
		if r := m.residents[namespace]; r != nil {
			var lines []string
			for _, w := range r.named {
				lines = append(lines, fmt.Sprint(w.Name, w.Cluster, w.Locality.Zone))
			}
			for _, a := range r.addressed {
				lines = append(lines, fmt.Sprint(a.ip, a.workload.Name, a.workload.Cluster, a.workload.Locality.Zone))
			}
			if !slices.IsSortedFunc(r.named, (*Workload).byName) || !slices.IsSortedFunc(r.addressed, addressed.compare) {
				lines = append(lines, "not sorted")
			}
			slices.Sort(lines) // two of one name have no order
			out = append(out, fmt.Sprint(namespace, lines))
		}
	}
	return out
}

// A mesh after many changes of endpoints and workloads on the short path equals one that is made from nothing.
func TestWithEqualsNext(t *testing.T) {
	taken := 0
	for seed := range uint64(60) {
		s := newShifting(seed)
		m := New(s.inOrder)
		for step := range 120 {
			services, workloads := s.edit()
			next, ok := m.With(services, nil, workloads...)
			if ok {
				taken++
			} else {
				next = m.Next(s.inOrder)
			}
			if m = next; step%3 > 0 {
				continue
			}
			if diff := cmp.Diff(looks(New(s.inOrder)), looks(m)); diff != "" {
				t.Fatalf("seed %d, step %d (-from nothing +after the changes):\n%s", seed, step, diff)
			}
		}
	}
	if taken < 60*100 {
		t.Errorf("the short path is taken %d times of %d", taken, 60*120)
	}
}
