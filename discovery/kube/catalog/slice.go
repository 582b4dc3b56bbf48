package catalog

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// slice is an EndpointSlice of a Service.
type slice struct {
	service   Key
	family    corev1.IPFamily
	wrong     string            // an addressType whose addresses cannot be served
	ports     map[string]uint32 // by name; 0 is the service's own number
	guessed   bool              // it does not say its family
	every     bool              // it has no list of ports, so it has all ports of the service
	endpoints []listed
}

// listed is one endpoint of a slice.
type listed struct {
	address    string
	pod        Key // the zero Key if it is not a Pod
	uid        string
	hostname   string // of the Pod, if the service is that of its subdomain
	node, zone string
	health     model.Health
}

// sliceOf reads an EndpointSlice; it returns nil for one that belongs to no Service.
func sliceOf(o *discoveryv1.EndpointSlice) *slice {
	name := o.Labels[discoveryv1.LabelServiceName]
	if name == "" {
		return nil
	}
	s := &slice{service: Key{Service, o.Namespace, name}, family: corev1.IPFamily(o.AddressType), ports: map[string]uint32{}}
	if s.family == "" { // of a file: an API server does not take it
		s.family, s.guessed = familyOf(o), true
	}
	if s.family != corev1.IPv4Protocol && s.family != corev1.IPv6Protocol {
		s.wrong = string(o.AddressType)
		return s
	}
	s.every = o.Ports == nil
	for _, p := range o.Ports {
		var name string
		var number uint32
		if p.Name != nil {
			name = *p.Name
		}
		if p.Port != nil && *p.Port > 0 && *p.Port <= 65535 {
			number = uint32(*p.Port)
		}
		s.ports[name] = number
	}
	for _, e := range o.Endpoints {
		if len(e.Addresses) > 0 { // all of them belong to one endpoint
			s.endpoints = append(s.endpoints, listedOf(o.Namespace, e))
		}
	}
	return s
}

// familyOf returns the family of a slice's addresses.
func familyOf(o *discoveryv1.EndpointSlice) corev1.IPFamily {
	for _, e := range o.Endpoints {
		for _, address := range e.Addresses {
			if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
				return corev1.IPv6Protocol
			}
		}
	}
	return corev1.IPv4Protocol
}

func listedOf(namespace string, e discoveryv1.Endpoint) listed {
	// A missing condition ready counts as true. Without the condition serving, a ready endpoint serves.
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	serving := e.Conditions.Serving == nil && ready || e.Conditions.Serving != nil && *e.Conditions.Serving
	terminating := e.Conditions.Terminating != nil && *e.Conditions.Terminating
	out := listed{address: model.Address(e.Addresses[0]), health: healthOf(ready, serving, terminating)}
	if t := e.TargetRef; t != nil && t.Kind == "Pod" {
		out.pod, out.uid = Key{Pod, cmp.Or(t.Namespace, namespace), t.Name}, string(t.UID)
	}
	if e.Hostname != nil && word.MatchString(*e.Hostname) {
		out.hostname = *e.Hostname
	}
	if e.NodeName != nil {
		out.node = *e.NodeName
	}
	if e.Zone != nil {
		out.zone = *e.Zone
	}
	return out
}

// touch records that the service of a slice may have changed.
func (c *Catalog) touch(slice Key) { c.dirty[c.slices[slice].service] = true }

// putSlice stores an EndpointSlice; nil removes it.
func (c *Catalog) putSlice(key Key, now *slice) {
	if was := c.slices[key]; was != nil {
		c.dirty[was.service] = true
		c.slicesOf.remove(was.service, key)
		for _, e := range was.endpoints {
			c.slicesFor.remove(e.pod, key)
			c.slicesOn.remove(e.node, key)
		}
		delete(c.slices, key)
	}
	if now == nil {
		return
	}
	c.slices[key], c.dirty[now.service] = now, true
	c.slicesOf.add(now.service, key)
	for _, e := range now.endpoints {
		if e.pod != (Key{}) {
			c.slicesFor.add(e.pod, key)
		}
		if e.node != "" {
			c.slicesOn.add(e.node, key)
		}
	}
}

// withEndpoints returns a service with the endpoints of all its slices.
func (c *Catalog) withEndpoints(key Key, d *declared) (*model.Service, []string) {
	s := d.service
	var wrong faults
	if d.endpoints {
		names := slices.Collect(c.slicesOf.of(key))
		sort.Slice(names, func(i, j int) bool { return names[i].Name < names[j].Name })
		listed := 0
		for _, name := range names {
			listed += len(c.slices[name].endpoints)
		}
		found := make([]candidate, 0, listed)
		for _, name := range names {
			in := c.slices[name]
			if in.wrong != "" {
				wrong.addf("EndpointSlice %s has the addressType %q, want IPv4 or IPv6", name.Name, in.wrong)
				continue
			}
			if in.guessed {
				wrong.addf("EndpointSlice %s has no addressType, and is taken for one of %s; want IPv4 or IPv6", name.Name, in.family)
			}
			s.Ports = d.leading(s.Ports, in)
			found = c.candidates(found, d, name.Name, in)
			for _, e := range in.endpoints {
				if _, err := netip.ParseAddr(e.address); err != nil {
					wrong.addf("EndpointSlice %s has the address %q, want an IP address", name.Name, e.address)
				}
			}
		}
		if d.service.Headless {
			c.lists(key, found)
			found = c.foreign(key, found, &wrong)
		} else {
			c.lists(key, nil)
		}
		s.Endpoints = chosen(found, d.families)
	}
	if len(s.Accounts)+len(s.SubjectAltNames) > 0 {
		s.Accounts = accounts(&s)
	}
	return &s, wrong.first()
}

// leading returns ports with the numbers to which they lead by name: a slice has them, and a change of them is a change of
// the service, since a gateway behind it opens them. The first slice by name decides.
func (d *declared) leading(ports []model.Port, in *slice) []model.Port {
	for i, p := range ports {
		if number := in.ports[p.Name]; d.named[p.Name] && p.Target == 0 && number != 0 && number != p.Number {
			ports = slices.Clone(ports)
			ports[i].Target = number
		}
	}
	return ports
}

// accounts returns the accounts that the service names and those of its endpoints: certificates of all of them are
// accepted.
func accounts(s *model.Service) []string {
	out := slices.Clone(s.Accounts)
	for _, e := range s.Endpoints {
		if e.ServiceAccount != "" {
			out = append(out, s.Namespace+"/"+e.ServiceAccount)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
