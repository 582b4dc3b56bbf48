package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// The union of registries: all declarations of one host in one namespace form one service, for any combination of
// sources.
//
//	right             an object or a Service of Kubernetes before a registry that anybody may write to, which does not join it;
//	                  outside of its own suffix such a registry is a guest: see guests.go.
//	owner             a registered service before a ServiceEntry; then the older; then namespace, name, registry and cluster;
//	                  then the order of the sources' names
//	resolution,       the owner's. A declaration with another one is left out.
//	headless
//	exportTo,         the owner's. A declaration of the same registry and cluster with another one is left out. One of another
//	selector          registry joins; its selector still adds workloads to its own endpoints.
//	addresses         those that the proxy's own cluster gives the service: see clusteraddress.go; else the owner's.
//	location, names   the owner's.
//	ports             the owner's, and the numbers that others have beside them. A port of both is the owner's.
//	endpoints         those of every declaration that joins, for the ports of that declaration; equal ones count once.
//
// A declaration or a field that is not used is reported as a Conflict in the notes, with the origin of both. Services
// of one host in two namespaces stay separate: see Scope.

// byRight orders services by host, and services of one host by their right to it.
func (s *Service) byRight(o *Service) int {
	return cmp.Or(
		cmp.Compare(s.Host, o.Host), first(s.Registry != "", o.Registry != ""), s.Created.Compare(o.Created),
		cmp.Compare(s.Namespace, o.Namespace), cmp.Compare(s.Name, o.Name), cmp.Compare(s.Registry, o.Registry), cmp.Compare(s.Cluster, o.Cluster),
	)
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// claimants are the declarations that form one service: all of one host and namespace, the owner first.
type claimants []*Service

func (c claimants) Same(o claimants) bool { return slices.Equal(c, o) }

// join returns the owner's service, extended by the declarations that join it.
func (c claimants) join() *Service {
	out := c[0]
	for _, s := range c[1:] {
		if apart(c[0], s) == "" {
			out = joined(out, s)
		}
	}
	if out != c[0] { // it is a copy
		out.ClusterAddresses = c.clusterAddresses()
	}
	return out
}

// with returns the claimants with s instead of its previous version. It returns false if there is none, or if more than
// the endpoints changed.
func (c claimants) with(s *Service) (claimants, bool) {
	own := func(o *Service) bool { return o.declaration() == s.declaration() }
	i := slices.IndexFunc(c, own)
	if i < 0 || slices.ContainsFunc(c[i+1:], own) || !onlyEndpoints(c[i], s) {
		return nil, false
	}
	out := slices.Clone(c)
	out[i] = s
	return out, true
}

// declaration identifies a declaration of a service among all declarations.
func (s *Service) declaration() string {
	return s.Registry + "/" + s.Cluster + "/" + s.Namespace + "/" + s.Name + "/" + s.Host
}

// apart returns the property whose difference keeps two declarations from forming one service, or "" if there is none.
// If there is one, the declaration that is not the owner is not used.
func apart(a, b *Service) string {
	one := a.Registry == b.Registry && a.Cluster == b.Cluster
	switch {
	case a.Right != b.Right:
		return "right to the host"
	case a.Resolution != b.Resolution:
		return "resolution"
	case one && !slices.Equal(a.ExportTo, b.ExportTo):
		return "exportTo"
	case one && !maps.Equal(a.Selector, b.Selector):
		return "workloadSelector"
	case a.Headless != b.Headless:
		return "cluster IP"
	default:
		return ""
	}
}

// joined returns a with the ports and endpoints of b. If both have a port, that of a is used.
func joined(a, b *Service) *Service {
	out := *a
	if slices.Equal(a.Ports, b.Ports) && a.Resolution != ResolutionDNSRoundRobin {
		out.Endpoints = withEndpoints(slices.Clone(a.Endpoints), b.Endpoints)
		return &out
	}
	out.Ports = slices.Clone(a.Ports)
	names := map[uint32]string{} // of b's ports in out
	for _, p := range b.Ports {
		if known, ok := a.Port(p.Number); ok {
			names[p.Number] = known.Name
			continue
		}
		if slices.ContainsFunc(out.Ports, func(o Port) bool { return o.Name == p.Name }) {
			p.Name = fmt.Sprintf("%s-%d", p.Name, p.Number)
		}
		names[p.Number] = p.Name
		out.Ports = append(out.Ports, p)
	}
	out.Endpoints = nil
	for _, e := range a.Endpoints {
		out.Endpoints = append(out.Endpoints, e.on(a.Ports, func(p Port) string { return p.Name }))
	}
	single := a.Resolution == ResolutionDNSRoundRobin // with this resolution a port can have only one endpoint
	var more []Endpoint
	for _, e := range b.Endpoints {
		e = e.on(b.Ports, func(p Port) string {
			if _, taken := a.Port(p.Number); taken && single {
				return ""
			}
			return names[p.Number]
		})
		if len(e.Ports) > 0 {
			more = append(more, e)
		}
	}
	out.Endpoints = withEndpoints(out.Endpoints, more)
	return &out
}

// withEndpoints appends to endpoints the endpoints of more that are not in it yet.
func withEndpoints(endpoints, more []Endpoint) []Endpoint {
	at := make(map[string][]int, len(endpoints))
	for i, e := range endpoints {
		at[e.Address] = append(at[e.Address], i)
	}
	for _, e := range more {
		if slices.ContainsFunc(at[e.Address], func(i int) bool { return endpoints[i].same(e) }) {
			continue
		}
		at[e.Address] = append(at[e.Address], len(endpoints))
		endpoints = append(endpoints, e)
	}
	return endpoints
}

// on returns the endpoint restricted to these ports, under the port names that name returns; a port whose name is "" is
// left out.
func (e Endpoint) on(ports []Port, name func(Port) string) Endpoint {
	served := map[string]uint32{}
	for _, p := range ports {
		if n := e.PortOn(p); n != 0 && name(p) != "" {
			served[name(p)] = n
		}
	}
	e.Ports, e.Partial = served, true
	return e
}

func (e Endpoint) same(o Endpoint) bool {
	return e.Address == o.Address && e.Weight == o.Weight && e.Locality == o.Locality && e.Network == o.Network &&
		e.Cluster == o.Cluster && e.ServiceAccount == o.ServiceAccount && e.Proxied == o.Proxied && e.Health == o.Health && e.Partial == o.Partial && e.Node == o.Node && e.Hostname == o.Hostname &&
		maps.Equal(e.Ports, o.Ports) && maps.Equal(e.Labels, o.Labels)
}
