package model

import (
	"maps"
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
)

// since is the difference between a mesh and one that was judged before, whatever lies between them. Values that did not change
// are the same pointers in both.
type since struct {
	last    *Judged
	all     bool          // anything may be different
	changed map[need]bool // parts that are different
	objects bool          // some object is another one
	places  []int         // of each object in the mesh before, -1 for none
	fresh   map[*Service]bool
}

// newSince compares the two. namespaces and streams are those of the mesh m.
func newSince(last *Judged, m *Mesh, namespaces map[string]bool, streams []int64) since {
	c := since{last: last, changed: map[need]bool{}, fresh: map[*Service]bool{}}
	if last == nil || last.mesh.settings != m.settings || !sameTwins(last.mesh.unused, m.unused) {
		return since{all: true}
	}
	c.pair(last.mesh.objects, m.objects, m.settings.Domain)
	c.services(last.mesh.services, m.services)
	c.mark(needNamespaces, !maps.Equal(last.namespaces, namespaces))
	c.mark(needWorkloads, !maps.Equal(last.mesh.residents, m.residents))
	c.mark(needProxies, !slices.Equal(last.streams, streams) || slices.Contains(streams, 0))
	return c
}

func sameTwins(a, b []twin) bool {
	return slices.EqualFunc(a, b, func(a, b twin) bool { return a.object == b.object })
}

func (c *since) mark(about about, changed bool) {
	if changed {
		c.changed[need{about, ""}] = true
	}
}

// has reports whether a part may be different.
func (c *since) has(n need) bool { return c.all || c.changed[n] }

// known returns what was found of an object, nil if nothing is known of it.
func (c *since) known(at int) *opinion {
	if c.all || c.places[at] < 0 {
		return nil
	}
	return c.last.objects[c.places[at]]
}

// same reports whether a service is the same, and had no note of its own.
func (c *since) quiet(s *Service) bool {
	return !c.all && !c.fresh[s] && !c.last.told[s] && s.ExternalName == "" // which leads to other services
}

// pair finds the place of each object in the mesh before. Both lists are in the order of age and name; objects of one age and name
// are in any order.
func (c *since) pair(was, is []*Object, d Domain) {
	c.places = make([]int, len(is))
	w := 0
	for at := 0; at < len(is); {
		for w < len(was) && was[w] != is[at] && was[w].Older(is[at].Meta) < 0 {
			c.touch(was[w], d)
			w++
		}
		if w < len(was) && was[w] == is[at] {
			c.places[at] = w
			at, w = at+1, w+1
			continue
		}
		old, now := run(was, w, is[at]), run(is, at, is[at])
		c.match(was[w:old], is[at:now], w, at, d)
		at, w = now, old
	}
	for _, o := range was[w:] {
		c.touch(o, d)
	}
}

// run returns the end of the objects from a place on that have the age and name of o.
func run(list []*Object, from int, o *Object) int {
	for from < len(list) && list[from].Older(o.Meta) == 0 {
		from++
	}
	return from
}

// match pairs objects of one age and name, which begin at these places of the lists.
func (c *since) match(was, is []*Object, from, at int, d Domain) {
	left := slices.Clone(was)
	for i, o := range is {
		k := slices.IndexFunc(left, func(w *Object) bool { return w == o || w != nil && w.Key() == o.Key() && onlyLine(w, o) })
		if c.places[at+i] = -1; k < 0 {
			c.touch(o, d)
			continue
		}
		c.places[at+i], left[k] = from+k, nil
		c.objects = c.objects || was[k] != o
	}
	for _, w := range left {
		if w != nil {
			c.touch(w, d)
		}
	}
}

// onlyLine reports whether two objects of one name differ at most in the place where they are written.
func onlyLine(a, b *Object) bool {
	return a.Spec == b.Spec && maps.Equal(a.Labels, b.Labels) && a.DryRun == b.DryRun && a.Closed == b.Closed && a.WholeHosts == b.WholeHosts &&
		a.Warnings.Same(b.Warnings)
}

// touch marks what an object is part of, which has come, gone or changed.
func (c *since) touch(o *Object, d Domain) {
	c.objects = true
	switch spec := o.Spec.(type) {
	case *networking.VirtualService:
		if len(spec.Hosts) == 0 {
			c.changed[need{needDelegate, o.Namespace + "/" + o.Name}] = true
		}
	case *networking.DestinationRule:
		host := d.Qualify(spec.Host, o.Namespace)
		c.changed[need{needPolicies, host}] = true
		c.all = c.all || IsWildcard(host)
	case *networking.Gateway:
		c.changed[need{needGateway, o.Namespace + "/" + o.Name}] = true
	case *networking.Sidecar, *security.PeerAuthentication:
		c.mark(needInbound, true)
	case *networking.WorkloadGroup:
		c.mark(needTemplates, true)
	case *networking.ServiceEntry, *networking.WorkloadEntry, *security.AuthorizationPolicy: // their services and workloads are compared
	case *meshconfig.MeshConfig, *meshconfig.MeshNetworks: // so are the settings
	default:
		c.all = true
	}
}

// services compares two lists in the order of hosts.
func (c *since) services(was, is []*Service) {
	w := 0
	for at := 0; at < len(is); {
		if w < len(was) && was[w] == is[at] { // most are
			at, w = at+1, w+1
			continue
		}
		host := is[at].Host
		if w < len(was) {
			host = min(host, was[w].Host)
		}
		for at > 0 && is[at-1].Host == host && w > 0 && was[w-1].Host == host {
			at, w = at-1, w-1
		}
		old, now := runOf(was, w, host), runOf(is, at, host)
		c.changed[need{needEndpoints, host}] = true
		if !slices.EqualFunc(was[w:old], is[at:now], sameButEndpoints) {
			c.changed[need{needServices, host}] = true
			c.mark(needHosts, !slices.EqualFunc(was[w:old], is[at:now], func(a, b *Service) bool { return a.Right == b.Right }))
		}
		for _, s := range is[at:now] {
			c.fresh[s] = true
		}
		at, w = now, old
	}
	for ; w < len(was); w++ {
		c.changed[need{needEndpoints, was[w].Host}], c.changed[need{needServices, was[w].Host}] = true, true
		c.mark(needHosts, true)
	}
}

// sameButEndpoints reports whether two services of one host differ at most in their endpoints, and in where they are declared.
func sameButEndpoints(a, b *Service) bool {
	return a.Namespace == b.Namespace && a.Registry == b.Registry && a.AliasOf == b.AliasOf && onlyEndpoints(a, b)
}

func runOf(list []*Service, from int, host string) int {
	for from < len(list) && list[from].Host == host {
		from++
	}
	return from
}
