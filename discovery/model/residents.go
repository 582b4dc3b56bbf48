package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Residents are the workloads of one namespace, among which a proxy finds its own. A value never changes: as long as
// the workloads of a namespace are the same, each mesh has the same pointer.
type Residents struct {
	named     []*Workload // by name
	addressed []addressed // by address
}

type addressed struct {
	ip       netip.Addr
	workload *Workload
}

// Claim holds the facts about a proxy by which its own workload is found. Empty fields are not known.
type Claim struct {
	Namespace string
	Name      string // of its Pod
	Cluster   string
	Network   string
	Account   string // the service account that its certificate proves
	Addresses []netip.Addr
}

// Residents returns the workloads of a namespace, nil if there are none.
func (m *Mesh) Residents(namespace string) *Residents { return m.residents[namespace] }

// indexResidents sorts the workloads of each namespace. Namespaces with the same workloads as in last share its lists.
func (m *Mesh) indexResidents(last *Mesh) {
	m.residents = make(map[string]*Residents, len(m.workloads))
	for namespace, all := range m.workloads {
		if last != nil && slices.Equal(all, last.workloads[namespace]) {
			m.residents[namespace] = last.residents[namespace]
		} else {
			m.residents[namespace] = (*Residents)(nil).with(nil, all)
		}
	}
}

// with returns r without the workloads of gone, and with those of come; nil if there are none left.
func (r *Residents) with(gone, come []*Workload) *Residents {
	if r == nil {
		r = &Residents{}
	}
	next := &Residents{
		named:     edited(r.named, gone, come, (*Workload).byName),
		addressed: edited(r.addressed, addressesOfAll(gone), addressesOfAll(come), addressed.compare),
	}
	if len(next.named) == 0 {
		return nil
	}
	return next
}

// addressesOfAll returns the workloads with each of their IP addresses.
func addressesOfAll(workloads []*Workload) (out []addressed) {
	for _, w := range workloads {
		for _, text := range w.Addresses {
			if ip, err := netip.ParseAddr(text); err == nil { // else a DNS name or a path
				out = append(out, addressed{ip.Unmap(), w})
			}
		}
	}
	return out
}

func (a addressed) compare(b addressed) int {
	return cmp.Or(a.ip.Compare(b.ip), a.workload.byName(b.workload))
}

// edited returns a copy of a sorted list without the elements of gone, and with those of come behind elements that compare
// equal. It looks for their places, and copies what lies between them.
func edited[T comparable](list, gone, come []T, compare func(a, b T) int) []T {
	var cut []int // places of gone
	for _, x := range gone {
		i, _ := slices.BinarySearchFunc(list, x, compare)
		for ; i < len(list) && compare(list[i], x) == 0; i++ {
			if list[i] == x {
				cut = append(cut, i)
			}
		}
	}
	slices.Sort(cut)
	cut = slices.Compact(cut)
	come = slices.Clone(come)
	slices.SortStableFunc(come, compare)
	out := make([]T, 0, len(list)-len(cut)+len(come))
	from := 0
	copied := func(to int) { // copies the list up to a place, without what is cut
		for ; len(cut) > 0 && cut[0] < to; cut = cut[1:] {
			out = append(out, list[from:cut[0]]...)
			from = cut[0] + 1
		}
		out = append(out, list[from:to]...)
		from = to
	}
	for _, x := range come {
		end, _ := slices.BinarySearchFunc(list, x, func(e, x T) int {
			if compare(e, x) <= 0 {
				return -1
			}
			return 1
		})
		copied(end)
		out = append(out, x)
	}
	copied(len(list))
	return out
}

func (w *Workload) byName(o *Workload) int {
	return cmp.Or(cmp.Compare(w.Name, o.Name), cmp.Compare(w.Cluster, o.Cluster), cmp.Compare(w.Registry, o.Registry))
}

// Own returns the proxy's own workload, or nil and the reason why there is none: the workload of its name, which must
// have one of its addresses, else the workload at one of its addresses. Several workloads count as one if they are in
// one place, since only the locality is used.
func (r *Residents) Own(c Claim) (own *Workload, reason string) {
	for _, candidates := range [][]*Workload{r.byName(c), r.byAddress(c)} {
		var found []*Workload
		for _, w := range candidates {
			if why := c.rejects(w); why == "" {
				found = append(found, w)
			} else {
				reason = w.title() + why
			}
		}
		if len(found) > 0 {
			return inOnePlace(found)
		}
	}
	if reason == "" {
		reason = fmt.Sprintf("no workload of namespace %q has its name or one of its addresses", c.Namespace)
	}
	return nil, reason
}

// Registered returns the workload of a name that a registry has of a cluster; nil for none.
func (r *Residents) Registered(name, registry, cluster string) *Workload {
	for _, w := range r.byName(Claim{Name: name}) {
		if w.Registry == registry && w.Cluster == cluster {
			return w
		}
	}
	return nil
}

// byName returns the workloads with the name of the proxy's Pod.
func (r *Residents) byName(c Claim) (out []*Workload) {
	if r == nil || c.Name == "" {
		return nil
	}
	i, _ := slices.BinarySearchFunc(r.named, c.Name, func(w *Workload, name string) int { return cmp.Compare(w.Name, name) })
	for ; i < len(r.named) && r.named[i].Name == c.Name; i++ {
		out = append(out, r.named[i])
	}
	return out
}

// byAddress returns the workloads that have one of the proxy's addresses, each once.
func (r *Residents) byAddress(c Claim) (out []*Workload) {
	if r == nil {
		return nil
	}
	for _, ip := range c.Addresses {
		i, _ := slices.BinarySearchFunc(r.addressed, ip, func(a addressed, ip netip.Addr) int { return a.ip.Compare(ip) })
		for ; i < len(r.addressed) && r.addressed[i].ip == ip; i++ {
			if w := r.addressed[i].workload; !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return out
}

// rejects returns the reason why w is not the proxy's own workload, or "" if it may be. A workload of a registry has
// the name of its Pod, a WorkloadEntry any name.
func (c Claim) rejects(w *Workload) string {
	differ := func(a, b string) bool { return a != "" && b != "" && a != b }
	switch {
	case differ(c.Cluster, w.Cluster):
		return " is in another cluster"
	case differ(c.Account, w.ServiceAccount):
		return " runs as another service account than the proxy's certificate proves"
	case w.Name == c.Name && len(c.Addresses) > 0 && !w.hasOneOf(c.Addresses):
		return " has none of the proxy's addresses"
	case w.Name != c.Name && c.Name != "" && w.Registry != "":
		return " has an address of the proxy, and another name"
	case w.Name != c.Name && differ(c.Network, w.Network):
		return " has an address of the proxy, in another network"
	}
	return ""
}

func (w *Workload) hasOneOf(addresses []netip.Addr) bool {
	return slices.ContainsFunc(w.Addresses, func(text string) bool {
		ip, err := netip.ParseAddr(text)
		return err == nil && slices.Contains(addresses, ip.Unmap())
	})
}

// inOnePlace returns the first of some workloads if all are in one place.
func inOnePlace(all []*Workload) (*Workload, string) {
	for _, w := range all[1:] {
		if w.Locality != all[0].Locality {
			return nil, fmt.Sprintf("%s and %s may both be its own, and are in different places: %q and %q",
				all[0].title(), w.title(), all[0].Locality, w.Locality)
		}
	}
	return all[0], ""
}

// title names a workload for people.
func (w *Workload) title() string {
	text := "workload " + w.Namespace + "/" + w.Name
	if w.Cluster != "" {
		text += " of cluster " + w.Cluster
	}
	return text
}

// Whereabouts returns the locality of the proxy's own workload, and for people where that comes from, or why there is
// none.
func (r *Residents) Whereabouts(c Claim) (Locality, string) {
	w, reason := r.Own(c)
	switch {
	case w == nil:
		return Locality{}, reason
	case w.Locality == (Locality{}):
		return Locality{}, w.title() + " has none"
	}
	return w.Locality, w.title()
}
