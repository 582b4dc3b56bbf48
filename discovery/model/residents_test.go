package model

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// pod returns a workload of a registry: "NAME ADDRESS,ADDRESS LOCALITY", in namespace a.
func pod(text string, change ...func(*Workload)) *Workload {
	parts := append(strings.Fields(text), "", "")
	w := &Workload{Registry: "Kubernetes", Cluster: "c1", Namespace: "a", Name: parts[0], ServiceAccount: "sa", Locality: ParseLocality(parts[2])}
	for address := range strings.SplitSeq(parts[1], ",") {
		w.Addresses = append(w.Addresses, address)
	}
	for _, f := range change {
		f(w)
	}
	return w
}

// A proxy's own workload is that of its name, with one of its addresses; else one at its address. A workload that may
// be another's is not used.
func TestOwn(t *testing.T) {
	cluster := func(name string) func(*Workload) { return func(w *Workload) { w.Cluster = name } }
	network := func(name string) func(*Workload) { return func(w *Workload) { w.Network = name } }
	entry := func(w *Workload) { w.Registry, w.Cluster, w.ServiceAccount = "", "", "" }
	elsewhere := func(w *Workload) { w.Namespace = "b" }
	who := func(name string, addresses ...string) Claim {
		c := Claim{Namespace: "a", Name: name, Cluster: "c1"}
		for _, text := range addresses {
			c.Addresses = append(c.Addresses, netip.MustParseAddr(text))
		}
		return c
	}
	as := func(c Claim, change func(*Claim)) Claim { change(&c); return c }
	for name, test := range map[string]struct {
		all   []*Workload
		claim Claim
		want  string // locality
		from  string
	}{
		"by name":                  {[]*Workload{pod("x 10.0.0.1 r/z1")}, who("x", "10.0.0.1"), "r/z1", "workload a/x of cluster c1"},
		"its second address":       {[]*Workload{pod("x 10.0.0.1,fd00::1 r/z1")}, who("x", "fd00::1"), "r/z1", "a/x"},
		"another spelling":         {[]*Workload{pod("x FD00:0::1 r/z1")}, who("x", "fd00::1"), "r/z1", "a/x"},
		"an address in IPv6":       {[]*Workload{pod("x ::ffff:10.0.0.1 r/z1")}, who("x", "10.0.0.1"), "r/z1", "a/x"},
		"by name, no address said": {[]*Workload{pod("x 10.0.0.1 r/z1")}, who("x"), "r/z1", "a/x"},
		"nothing there":            {nil, who("x", "10.0.0.1"), "", `no workload of namespace "a"`},
		"others there":             {[]*Workload{pod("y 10.0.0.2 r/z1")}, who("x", "10.0.0.1"), "", `no workload of namespace "a"`},
		"its Node has no labels":   {[]*Workload{pod("x 10.0.0.1")}, who("x", "10.0.0.1"), "", "workload a/x of cluster c1 has none"},

		"the host's network, each its own": {
			[]*Workload{pod("x 10.0.0.1 r/z1"), pod("y 10.0.0.1 r/z2"), pod("z 10.0.0.1 r/z3")}, who("y", "10.0.0.1"), "r/z2", "a/y",
		},
		"the host's network, not known yet": {
			[]*Workload{pod("x 10.0.0.1 r/z1")}, who("y", "10.0.0.1"), "", "a/x of cluster c1 has an address of the proxy, and another name",
		},
		"the name's old Pod":        {[]*Workload{pod("web-0 10.0.0.1 r/z1")}, who("web-0", "10.0.0.2"), "", "has none of the proxy's addresses"},
		"the address' old Pod":      {[]*Workload{pod("old 10.0.0.1 r/z1"), pod("x 10.0.0.1 r/z2")}, who("x", "10.0.0.1"), "r/z2", "a/x"},
		"another cluster's":         {[]*Workload{pod("x 10.0.0.1 r/z1", cluster("c2"))}, who("x", "10.0.0.1"), "", "is in another cluster"},
		"the same in two clusters":  {[]*Workload{pod("x 10.0.0.1 r/z2", cluster("c2")), pod("x 10.0.0.1 r/z1")}, who("x", "10.0.0.1"), "r/z1", "of cluster c1"},
		"the proxy has no cluster":  {[]*Workload{pod("x 10.0.0.1 r/z2", cluster("c2"))}, as(who("x", "10.0.0.1"), func(c *Claim) { c.Cluster = "" }), "r/z2", "of cluster c2"},
		"no cluster, both possible": {[]*Workload{pod("x 10.0.0.1 r/z2", cluster("c2")), pod("x 10.0.0.1 r/z1")}, as(who("x", "10.0.0.1"), func(c *Claim) { c.Cluster = "" }), "", `"r/z1" and "r/z2"`},
		"both, in one place":        {[]*Workload{pod("x 10.0.0.1 r/z", cluster("c2")), pod("x 10.0.0.1 r/z")}, as(who("x", "10.0.0.1"), func(c *Claim) { c.Cluster = "" }), "r/z", "of cluster c1"},
		"another's account":         {[]*Workload{pod("x 10.0.0.1 r/z1")}, as(who("x", "10.0.0.1"), func(c *Claim) { c.Account = "thief" }), "", "runs as another service account"},
		"its account":               {[]*Workload{pod("x 10.0.0.1 r/z1")}, as(who("x", "10.0.0.1"), func(c *Claim) { c.Account = "sa" }), "r/z1", "a/x"},

		"a VM":                    {[]*Workload{pod("vm-entry 10.0.0.1 r/z1", entry)}, who("host7", "10.0.0.1"), "r/z1", "workload a/vm-entry"},
		"a VM's second address":   {[]*Workload{pod("vm-entry 10.0.0.1 r/z1", entry)}, who("host7", "192.168.0.1", "10.0.0.1"), "r/z1", "workload a/vm-entry"},
		"a VM in another network": {[]*Workload{pod("vm 10.0.0.1 r/z1", entry, network("n2"))}, as(who("", "10.0.0.1"), func(c *Claim) { c.Network = "n1" }), "", "in another network"},
		"one address, two networks": {
			[]*Workload{pod("v1 10.0.0.1 r/z1", entry, network("n1")), pod("v2 10.0.0.1 r/z2", entry, network("n2"))},
			as(who("host7", "10.0.0.1"), func(c *Claim) { c.Network = "n2" }), "r/z2", "a/v2",
		},
		"one address, network not said": {
			[]*Workload{pod("v1 10.0.0.1 r/z1", entry, network("n1")), pod("v2 10.0.0.1 r/z2", entry, network("n2"))},
			who("host7", "10.0.0.1"), "", "workload a/v1 and workload a/v2 may both be its own",
		},
		"two entries, one place": {[]*Workload{pod("v1 10.0.0.1 r/z", entry), pod("v2 10.0.0.1 r/z", entry)}, who("host7", "10.0.0.1"), "r/z", "a/v1"},
		"a VM with a DNS name":   {[]*Workload{pod("vm vm.test r/z1", entry)}, who("host7", "10.0.0.1"), "", "no workload"},
		"a proxy without a name": {[]*Workload{pod("x 10.0.0.1 r/z1")}, who("", "10.0.0.1"), "r/z1", "a/x"},
		"a name that is an IP":   {[]*Workload{pod("10.0.0.1 10.0.0.2 r/z1")}, who("y", "10.0.0.1"), "", "no workload"},
		"of another namespace":   {[]*Workload{pod("x 10.0.0.1 r/z1", elsewhere)}, who("x", "10.0.0.1"), "", `no workload of namespace "a"`},
		"an object of a neighbour": {
			[]*Workload{pod("x 10.0.0.1 r/z1"), pod("x 10.0.0.1 r/z9", entry, elsewhere)}, who("x", "10.0.0.1"), "r/z1", "a/x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(slices.Values([]Group{{Workloads: test.all}}))
			got, from := m.Residents(test.claim.Namespace).Whereabouts(test.claim)
			if got.String() != test.want || !strings.Contains(from, test.from) {
				t.Errorf("in %q, from %q, want %q from %q", got, from, test.want, test.from)
			}
		})
	}
}

// Residents that are made by changes equal those that are made from all workloads. Namespaces without a change keep the
// same value, so that their proxies need not look again.
func TestResidentsFollowChanges(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		groups := map[string]Group{}
		for i := range 6 {
			groups[fmt.Sprint("b", i)] = Group{Workloads: []*Workload{pod(fmt.Sprintf("b%d 10.1.0.%d r", i, i), func(w *Workload) { w.Namespace = "b" })}}
		}
		all := func(yield func(Group) bool) {
			for _, key := range slices.Sorted(maps.Keys(groups)) {
				if !yield(groups[key]) {
					return
				}
			}
		}
		m := New(all)
		for step := range 30 {
			var changes []WorkloadChange
			for _, i := range random.Perm(12)[:1+random.IntN(8)] {
				key := fmt.Sprint("x", i)
				was, now := groups[key], Group{}
				if random.IntN(3) > 0 {
					now = Group{Workloads: []*Workload{pod(fmt.Sprintf("%s 10.0.0.%d r/z%d", key, random.IntN(4), random.IntN(3)))}}
				}
				if groups[key] = now; now.Empty() {
					delete(groups, key)
				}
				changes = append(changes, WorkloadChanges(was, now)...)
			}
			if len(changes) == 0 {
				continue
			}
			next, ok := m.With(nil, nil, changes...)
			if !ok {
				t.Fatalf("seed %d: a workload that nothing selects is more than a small change", seed)
			}
			got, want := next.Residents("a"), New(all).Residents("a")
			if (got == nil) != (want == nil) || got != nil && (!slices.Equal(got.named, want.named) || !slices.Equal(got.addressed, want.addressed)) {
				t.Fatalf("seed %d, step %d: %+v, want %+v", seed, step, got, want)
			}
			if next.Residents("b") != m.Residents("b") || next.Residents("b") == nil {
				t.Fatalf("seed %d, step %d: a namespace without a change has other residents", seed, step)
			}
			if got != nil && m.Residents("a") == got {
				t.Fatalf("seed %d, step %d: the residents changed in their place", seed, step)
			}
			m = next
		}
		again := m.Next(all)
		if again.Residents("b") != m.Residents("b") {
			t.Fatalf("seed %d: an index of everything makes other residents of the same workloads", seed)
		}
	}
}
