package catalog

import (
	"iter"
	"slices"
)

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
	return s.good.Addresses
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
