package catalog

import (
	"maps"
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
	out, own := map[string]Key{}, map[string]bool{}
	for key, p := range c.pods {
		for _, address := range p.own() {
			switch {
			case !addresses[address]:
			case key.Namespace == of.Namespace:
				own[address] = true
			case out[address] == (Key{}) || key.String() < out[address].String(): // the same one each time
				out[address] = key
			}
		}
	}
	maps.DeleteFunc(out, func(address string, _ Key) bool { return own[address] })
	for key, s := range c.services {
		for _, address := range s.addresses() {
			if addresses[address] {
				out[address] = key
			}
		}
	}
	return out
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

// move records that addresses have another owner now, unless they are the same.
func (c *Catalog) move(was, now []string) {
	if slices.Equal(was, now) {
		return
	}
	for _, address := range slices.Concat(was, now) {
		c.moved[address] = true
	}
}

// touchHeadless records that headless Services which list a moved address may have changed.
func (c *Catalog) touchHeadless() {
	if len(c.moved) == 0 {
		return
	}
	for key, s := range c.services {
		if s.good == nil || !s.good.Headless || c.dirty[key] {
			continue
		}
		for slice := range c.slicesOf[key] {
			if slices.ContainsFunc(c.slices[slice].endpoints, func(e listed) bool { return c.moved[e.address] }) {
				c.dirty[key] = true
			}
		}
	}
	clear(c.moved)
}
