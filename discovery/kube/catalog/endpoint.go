package catalog

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// candidate is an endpoint of one slice.
type candidate struct {
	model.Endpoint
	pod    Key
	uid    string
	family corev1.IPFamily
	slice  string // its name
	known  bool   // the catalog has its Pod, with the UID in the slice
}

// candidates appends the endpoints of a slice.
func (c *Catalog) candidates(out []candidate, d *declared, name string, in *slice) []candidate {
	ports, partial := in.portsFor(d.service.Ports)
	if partial && len(ports) == 0 && len(d.service.Ports) > 0 {
		return out // it has none of the service's ports
	}
	for _, e := range in.endpoints {
		if _, err := netip.ParseAddr(e.address); err != nil {
			continue
		}
		p := c.pods[e.pod]
		if p != nil && (e.uid != "" && p.uid != "" && e.uid != p.uid) {
			p = nil // it is another Pod of the same name
		}
		one := candidate{
			Endpoint: model.Endpoint{
				Address: e.address, Ports: ports, Partial: partial, Locality: c.locality(p, e.node, e.zone), Network: c.networkOf(p),
				Cluster: c.options.Cluster, Health: e.health,
			},
			pod: e.pod, uid: e.uid, family: in.family, slice: name, known: p != nil,
		}
		if d.service.NodeLocal || d.service.Prefer == model.PreferNode {
			if one.Node = e.node; p != nil {
				one.Node = cmp.Or(p.node, e.node)
			}
		}
		if d.service.Headless {
			one.Hostname = e.hostname
		}
		if d.always {
			one.Health = model.HealthHealthy
		}
		if p != nil {
			one.Labels, one.ServiceAccount = p.labels, p.account
		}
		out = append(out, one)
	}
	return out
}

// portsFor returns the port numbers of a slice, by name. If the slice has all ports of the service, these are only the
// numbers that differ from the service's; else all numbers that it has, and partial is true.
func (s *slice) portsFor(ports []model.Port) (out map[string]uint32, partial bool) {
	if s.every {
		return nil, false
	}
	all, differing := map[string]uint32{}, map[string]uint32{}
	for _, p := range ports {
		own := (model.Endpoint{}).PortOn(p)
		number, ok := s.ports[p.Name]
		if !ok {
			partial = true
			continue
		}
		if number == 0 {
			number = own
		}
		if all[p.Name] = number; number != own {
			differing[p.Name] = number
		}
	}
	if partial {
		return all, true
	}
	if len(differing) == 0 {
		return nil, false
	}
	return differing, false
}

// chosen returns each endpoint once. Two slices may list an endpoint while it moves from one to the other, with states
// of different times. A Pod with addresses of two families is in slices of both: then the endpoint of the first family
// is used.
//
// It uses the memory of all for what it keeps of it.
func chosen(all []candidate, families []corev1.IPFamily) []model.Endpoint {
	at := make(map[string]int, len(all)) // the last one of out at an address
	before := map[int]int{}              // the one before it, of few addresses
	out := all[:0]
	for _, one := range all {
		i, known := at[one.Address]
		for known && (out[i].Partial != one.Partial || !maps.Equal(out[i].Ports, one.Ports)) {
			i, known = before[i]
		}
		switch {
		case known && one.before(out[i]):
			out[i] = one
		case !known:
			if last, taken := at[one.Address]; taken {
				before[len(out)] = last
			}
			at[one.Address] = len(out)
			out = append(out, one)
		}
	}
	out = firstFamily(out, families)
	if len(out) == 0 {
		return nil
	}
	endpoints := make([]model.Endpoint, len(out))
	for i, one := range out {
		endpoints[i] = one.Endpoint
	}
	return endpoints
}

// before reports whether of two listings of one endpoint this one is to be used: the other may be of another Pod that
// had the address before and takes no requests any more.
func (one candidate) before(o candidate) bool {
	if one.known != o.known && one.Health.TakesRequests() == o.Health.TakesRequests() {
		return one.known
	}
	return rank(one.Health) < rank(o.Health)
}

func rank(h model.Health) int {
	switch h {
	case model.HealthHealthy:
		return 0
	case model.HealthTerminating:
		return 1
	default:
		return 2
	}
}

// firstFamily removes the endpoints of other families of Pods that have an address of the service's first family.
func firstFamily(all []candidate, families []corev1.IPFamily) []candidate {
	if len(families) < 2 {
		return all
	}
	type who struct {
		pod Key
		uid string
	}
	first := map[who]bool{}
	for _, one := range all {
		if one.pod != (Key{}) && one.family == families[0] {
			first[who{one.pod, one.uid}] = true
		}
	}
	return slices.DeleteFunc(all, func(one candidate) bool { return one.family != families[0] && first[who{one.pod, one.uid}] })
}

// Clients dial the endpoints of a headless Service, so a proxy has a listener for each of their addresses. A tenant who
// lists an address of another Service, or of another namespace's Pod, would receive what is sent there. The address of
// a Pod on its node's network belongs to the node, and anyone may list it.

// foreign removes from the endpoints of a headless Service those whose address belongs to another Service or to a Pod
// of another namespace, and adds a fault for each.
func (c *Catalog) foreign(of Key, all []candidate, wrong *faults) []candidate {
	unproven := map[string]bool{}
	for _, one := range all {
		if !c.proven(of, one) {
			unproven[one.Address] = true
		}
	}
	if len(unproven) == 0 {
		return all
	}
	owners := c.owners(of, unproven)
	return slices.DeleteFunc(all, func(one candidate) bool {
		owner, taken := owners[one.Address]
		if taken && unproven[one.Address] {
			wrong.addf("EndpointSlice %s has the address %s, which is %s %s/%s's", one.slice, one.Address, owner.Kind, owner.Namespace, owner.Name)
			return true
		}
		return false
	})
}

// proven reports whether an endpoint is a Pod of the Service's namespace, which has the address.
func (c *Catalog) proven(of Key, one candidate) bool {
	return one.known && one.pod.Namespace == of.Namespace && slices.Contains(c.pods[one.pod].addresses, one.Address)
}

// owners returns the Service or the Pod of other namespaces that has an address. An address that a Pod of the own
// namespace has belongs to it.
func (c *Catalog) owners(of Key, addresses map[string]bool) map[string]Key {
	out := map[string]Key{}
	for address := range addresses {
		if owner, taken := ownerOf(c.holders.of(address), of.Namespace); taken {
			out[address] = owner
		}
	}
	return out
}

// ownerOf returns the one of holders to which an address belongs that a namespace lists: a Service, else a Pod of another
// namespace if the own one has none.
func ownerOf(holders iter.Seq[Key], namespace string) (owner Key, taken bool) {
	own := false
	for key := range holders {
		switch {
		case key.Kind == Pod && key.Namespace == namespace:
			own = true
		case owner == (Key{}), key.Kind == Service && owner.Kind == Pod, key.Kind == owner.Kind && key.String() < owner.String(): // the same one each time
			owner = key
		}
	}
	return owner, owner.Kind == Service || owner.Kind == Pod && !own
}

// own returns the addresses that only this Pod has.
func (p *pod) own() []string {
	if p == nil || p.ended || p.onNode {
		return nil
	}
	return p.addresses
}

func (s *service) addresses() []string {
	if s == nil || s.good == nil {
		return nil
	}
	return s.good.service.Addresses
}

// move records that a Service or a Pod had some addresses, and has others now, unless they are the same.
func (c *Catalog) move(key Key, was, now []string) {
	if slices.Equal(was, now) {
		return
	}
	for _, address := range was {
		c.holders.remove(address, key)
		c.moved[address] = true
	}
	for _, address := range now {
		c.holders.add(address, key)
		c.moved[address] = true
	}
}

// lists records the addresses that the slices of a Service list, if it is headless; nil for another.
func (c *Catalog) lists(of Key, all []candidate) {
	s := c.services[of]
	now := make([]string, 0, len(all))
	for _, one := range all {
		now = append(now, one.Address)
	}
	if slices.Equal(s.listed, now) {
		return
	}
	for _, address := range s.listed {
		c.listing.remove(address, of)
	}
	for _, address := range now {
		c.listing.add(address, of)
	}
	s.listed = now
}

// touchHeadless records that headless Services which list a moved address may have changed.
func (c *Catalog) touchHeadless() {
	for address := range c.moved {
		for of := range c.listing.of(address) {
			c.dirty[of] = true
		}
	}
	clear(c.moved)
}
