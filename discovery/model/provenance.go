package model

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
)

// Place is an object, or a field of it: what made a part of a proxy's configuration.
type Place struct {
	Meta Meta
	Path string // "spec.http[0].match[1]"; empty for the whole object
}

// Line returns the line of the field, or of the nearest field above it that the file has; 0 for what is in no file.
func (p Place) Line() int { return p.Meta.Origin.Fields.At(p.Path, p.Meta.Origin.Line) }

// DeclaredBy returns the object that declares a service. For a registered service it returns a Meta that describes the
// registry's record.
func (m *Mesh) DeclaredBy(s *Service) Meta {
	if s.Registry == "" {
		for _, o := range m.used() {
			if entry, ok := o.Spec.(*networking.ServiceEntry); ok && o.Namespace == s.Namespace && o.Name == s.Name &&
				slices.ContainsFunc(entry.Hosts, func(host string) bool { return strings.EqualFold(host, s.Host) }) {
				return o.Meta
			}
		}
	}
	return Meta{Kind: "Service", Namespace: s.Namespace, Name: cmp.Or(s.Name, s.Host), Created: s.Created, Origin: s.Origin}
}

// RoutePlaces returns the place of each HTTP route of a rule of the mesh, in their order: in its object, or in the delegate that has the
// route. It returns nil if the mesh has no such rule.
func (m *Mesh) RoutePlaces(rule *Config[*networking.VirtualService]) (out []Place) {
	delegates := map[string]*Object{}
	var own *Object
	for _, o := range m.used() {
		spec, ok := o.Spec.(*networking.VirtualService)
		switch {
		case !ok:
		case len(spec.Hosts) == 0:
			delegates[o.Namespace+"/"+o.Name] = o
		case o.Namespace == rule.Namespace && o.Name == rule.Name:
			own = o
		}
	}
	if own == nil {
		return nil
	}
	d := m.delegationOf(own, delegates)
	http := d.domain.qualifyVirtualService(own.Spec.(*networking.VirtualService), own.Meta).Http
	d.each(http, func(_ *networking.HTTPRoute, of Meta, i int) { out = append(out, Place{of, index("spec.http", i)}) })
	return out
}

// PolicyPlaces returns the DestinationRules of which the policy for a service consists: that which is first gives the traffic policy, if it has one.
func (s *Scope) PolicyPlaces(service *Service) (out []Place) {
	for _, r := range s.policiesFor(service.Host, service.Namespace) {
		out = append(out, Place{Meta: r.Meta})
	}
	return out
}

// TLSPlaces returns the field of a DestinationRule that says how a cluster of a service begins connections; none if no rule does.
func (s *Scope) TLSPlaces(service *Service, port uint32, subset string) []Place {
	rules := s.policiesFor(service.Host, service.Namespace)
	for _, r := range rules {
		for i, own := range r.Spec.Subsets {
			if path := tlsPath(own.GetTrafficPolicy(), port); own.Name == subset && path != "" {
				return []Place{{r.Meta, index("spec.subsets", i) + ".trafficPolicy" + path}}
			}
		}
	}
	for _, r := range rules {
		if path := tlsPath(r.Spec.TrafficPolicy, port); path != "" {
			return []Place{{r.Meta, "spec.trafficPolicy" + path}}
		}
	}
	return nil
}

// tlsPath returns where a policy has the TLS of a port, "" if it has none.
func tlsPath(p *networking.TrafficPolicy, port uint32) string {
	for i, level := range p.GetPortLevelSettings() {
		if level.GetPort().GetNumber() == port && level.Tls != nil {
			return index(".portLevelSettings", i) + ".tls"
		}
	}
	if p.GetTls() != nil {
		return ".tls"
	}
	return ""
}

// OutboundPlaces returns what decides about requests of a workload to unknown hosts: its Sidecar, or MeshConfig; none if neither says it.
func (m *Mesh) OutboundPlaces(namespace string, labels map[string]string) []Place {
	if s := m.Sidecar(namespace, labels); s != nil && s.Spec.OutboundTrafficPolicy != nil {
		return []Place{{s.Meta, "spec.outboundTrafficPolicy"}}
	}
	for _, o := range m.used() {
		if c, ok := o.Spec.(*meshconfig.MeshConfig); ok && c.OutboundTrafficPolicy != nil {
			return []Place{{o.Meta, "outboundTrafficPolicy"}}
		}
	}
	return nil
}

// PeerPlaces returns the PeerAuthentication that decides which connections a workload's port takes; none if no policy does.
func (m *Mesh) PeerPlaces(namespace string, labels map[string]string, port uint32) []Place {
	policy := m.Peers(namespace).Of(labels)
	_, by := policy.decide(port)
	for _, o := range m.used() {
		if spec, ok := o.Spec.(*security.PeerAuthentication); ok && spec == by {
			path := "spec.mtls"
			if spec.GetPortLevelMtls()[port] != nil && by == policy.Workload {
				path = "spec.portLevelMtls"
			}
			return []Place{{o.Meta, path}}
		}
	}
	return nil
}

// RulePlaces returns a rule of an AuthorizationPolicy.
func (m *Mesh) RulePlaces(namespace, name string, rule int) []Place {
	for _, o := range m.used() {
		if _, ok := o.Spec.(*security.AuthorizationPolicy); ok && o.Namespace == namespace && o.Name == name {
			return []Place{{o.Meta, index("spec.rules", rule)}}
		}
	}
	return nil
}

// EndpointPlaces returns what declares an address as an endpoint of a service: endpoints of ServiceEntries, and workloads of its
// namespace; else the record of the service.
func (m *Mesh) EndpointPlaces(s *Service, address string) (out []Place) {
	for _, o := range m.used() {
		entry, ok := o.Spec.(*networking.ServiceEntry)
		if !ok || o.Namespace != s.Namespace || !slices.ContainsFunc(entry.Hosts, func(host string) bool { return strings.EqualFold(host, s.Host) }) {
			continue
		}
		for i, e := range entry.Endpoints {
			if e.Address == address {
				out = append(out, Place{o.Meta, index("spec.endpoints", i)})
			}
		}
	}
	for _, w := range m.workloads[s.Namespace] {
		if s.takes(w) && slices.Contains(w.Addresses, address) {
			out = append(out, Place{Meta: w.meta()})
		}
	}
	if len(out) == 0 {
		out = append(out, Place{Meta: m.DeclaredBy(s)})
	}
	return out
}

// meta describes the object or record of a workload.
func (w *Workload) meta() Meta {
	kind := "Pod"
	if w.Registry == "" {
		kind = "WorkloadEntry"
	}
	return Meta{Kind: kind, Namespace: w.Namespace, Name: w.Name, Origin: w.Origin}
}

// Workloads yields every workload, by namespace.
func (m *Mesh) Workloads() iter.Seq[*Workload] {
	return func(yield func(*Workload) bool) {
		for _, namespace := range slices.Sorted(maps.Keys(m.workloads)) {
			for _, w := range m.workloads[namespace] {
				if !yield(w) {
					return
				}
			}
		}
	}
}
