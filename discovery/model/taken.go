package model

import (
	"cmp"
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// An address that a registry has of a service or of a Pod belongs to it: the ServiceEntry of another namespace with that address, or a
// range with it, would take the connections of all clients to it, because Envoy looks for the address of a connection before it
// looks for HTTP. Objects of the root namespace are the mesh owner's, and a Pod in its node's network has the address of others too.

// addressOwner is an address with its owner: one of the two is nil.
type addressOwner struct {
	ip      netip.Addr
	service *Service
	pod     *Workload
}

func (o addressOwner) namespace() string {
	if o.service != nil {
		return o.service.Namespace
	}
	return o.pod.Namespace
}

// at reports whether a port of the address belongs to the owner, for clients of a cluster: see ClusterAs.
func (o addressOwner) at(number uint32, cluster string) bool {
	if o.service == nil {
		return cluster == "" || o.pod.Cluster == "" || o.pod.Cluster == cluster
	}
	return slices.ContainsFunc(o.service.Ports, func(p Port) bool { return p.Number == number }) &&
		slices.ContainsFunc(o.service.AddressesIn(cluster), func(text string) bool {
			ip, err := netip.ParseAddr(text)
			return err == nil && ip.Unmap() == o.ip
		})
}

// indexOwners lists the addresses that belong to services and Pods of registries, if some object could take one.
func (m *Mesh) indexOwners() {
	m.takers, m.owners = m.takingRanges(), nil
	if len(m.takers.of) == 0 {
		return
	}
	for _, s := range m.services {
		if s.Registry == "" {
			continue
		}
		add := func(addresses []string) {
			for _, text := range addresses {
				if ip, err := netip.ParseAddr(text); err == nil && m.inTakers(ip.Unmap()) {
					m.owners = append(m.owners, addressOwner{ip: ip.Unmap(), service: s})
				}
			}
		}
		add(s.Addresses)
		for _, own := range s.ClusterAddresses {
			add(own)
		}
	}
	for _, all := range m.workloads {
		for _, w := range all {
			for _, a := range w.ownAddresses() {
				if m.inTakers(a) {
					m.owners = append(m.owners, addressOwner{ip: a, pod: w})
				}
			}
		}
	}
	slices.SortFunc(m.owners, func(a, b addressOwner) int {
		return cmp.Or(a.ip.Compare(b.ip), cmp.Compare(a.namespace(), b.namespace()))
	})
}

// ownAddresses returns the addresses that only the Pod has.
func (w *Workload) ownAddresses() (out []netip.Addr) {
	if w.Registry == "" || w.OnNode {
		return nil
	}
	for _, text := range w.Addresses {
		if ip, err := netip.ParseAddr(text); err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

// takingRanges returns the addresses that ServiceEntries, and destinationSubnets of TCP and TLS routes, want.
func (m *Mesh) takingRanges() (out ranges) {
	root := m.settings.RootNamespace()
	for _, s := range m.services {
		if s.Registry == "" && s.Namespace != root {
			out.add(prefixes(s.Addresses))
		}
	}
	for _, v := range m.virtualServices {
		if v.Namespace != root {
			out.add(prefixes(DestinationSubnets(v.Spec)))
		}
	}
	return out
}

// DestinationSubnets returns those of all TCP and TLS routes.
func DestinationSubnets(v *networking.VirtualService) (out []string) {
	for _, r := range v.GetTcp() {
		for _, match := range r.Match {
			out = append(out, match.GetDestinationSubnets()...)
		}
	}
	for _, r := range v.GetTls() {
		for _, match := range r.Match {
			out = append(out, match.GetDestinationSubnets()...)
		}
	}
	return out
}

func (m *Mesh) inTakers(ip netip.Addr) bool { return m.takers.contain(ip) }

// ranges are prefixes, in which an address is found by one lookup for each length that they have: tenants decide how many there are.
type ranges struct {
	of      map[netip.Prefix]bool
	lengths []int
}

func (r *ranges) add(all []netip.Prefix) {
	for _, p := range all {
		if r.of == nil {
			r.of = map[netip.Prefix]bool{}
		}
		if r.of[p] = true; !slices.Contains(r.lengths, p.Bits()) {
			r.lengths = append(r.lengths, p.Bits())
		}
	}
}

func (r *ranges) contain(ip netip.Addr) bool {
	return slices.ContainsFunc(r.lengths, func(bits int) bool {
		p, err := ip.Prefix(bits) // an error for a length that only IPv6 has
		return err == nil && ip.Zone() == "" && r.of[p]
	})
}

// prefixes reads addresses and ranges; what is neither is left out.
func prefixes(texts []string) (out []netip.Prefix) {
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil {
			ip = ip.Unmap()
			out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
		} else if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// TakenFrom returns the addresses in some ranges, at a port, that belong to services and Pods of other namespaces than that of the
// object with the ranges. They are sorted. cluster is that of the clients: see ClusterAs.
func (m *Mesh) TakenFrom(ranges []string, number uint32, namespace, cluster string) (out []netip.Addr) {
	m.eachTaken(ranges, namespace, func(o addressOwner) {
		if o.at(number, cluster) {
			out = append(out, o.ip)
		}
	})
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func (m *Mesh) eachTaken(ranges []string, namespace string, each func(addressOwner)) {
	if len(m.owners) == 0 || len(ranges) == 0 || namespace == m.settings.RootNamespace() {
		return
	}
	for _, p := range prefixes(ranges) {
		i, _ := slices.BinarySearchFunc(m.owners, p.Addr(), func(o addressOwner, ip netip.Addr) int { return o.ip.Compare(ip) })
		for ; i < len(m.owners) && p.Contains(m.owners[i].ip); i++ {
			if m.owners[i].namespace() != namespace {
				each(m.owners[i])
			}
		}
	}
}
