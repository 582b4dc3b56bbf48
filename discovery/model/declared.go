package model

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// declaredServices holds the services that a ServiceEntry declares.
type declaredServices struct {
	object   *Object
	services []*Service
}

// declare returns the services of a ServiceEntry, and whether they are the same as in m. If only the position of the
// object in its file changed, the services are the same pointers, so values made from them are reused.
func (m *Mesh) declare(o *Object, entry *networking.ServiceEntry) (services declaredServices, same bool) {
	known, ok := m.declared[entry]
	if len(m.redeclared) > 0 {
		if now, moved := m.redeclared[o.Key()]; moved {
			known, ok = now, true
		}
	}
	if ok && known.object.Spec == o.Spec && known.object.Namespace == o.Namespace && known.object.Name == o.Name &&
		known.object.Created.Equal(o.Created) {
		return declaredServices{o, known.services}, true
	}
	return declaredServices{o, servicesOf(o.Meta, entry)}, false
}

// redeclare returns the services that an object now declares, and records them in m. m was derived from last by With.
// It returns none if only the position of the object in its file changed.
func (m *Mesh) redeclare(last *Mesh, o *Object, entry *networking.ServiceEntry) []*Service {
	now, known := last.declare(o, entry)
	if known {
		return nil
	}
	if m.redeclared = maps.Clone(m.redeclared); m.redeclared == nil {
		m.redeclared = map[string]declaredServices{}
	}
	m.redeclared[o.Key()] = now
	return now.services
}

// servicesOf returns a service for each host. They share their ports, and also their endpoints unless Envoy resolves
// the host.
func servicesOf(meta Meta, entry *networking.ServiceEntry) []*Service {
	ports, endpoints := portsOf(entry), endpointsOf(entry)
	var out []*Service
	for _, host := range entry.Hosts {
		s := &Service{
			Right:           RightFull,
			Host:            strings.ToLower(host),
			Namespace:       meta.Namespace,
			Name:            meta.Name,
			Created:         meta.Created,
			Resolution:      resolutionOf(entry.Resolution),
			External:        entry.Location == networking.ServiceEntry_MESH_EXTERNAL,
			Addresses:       addressesOf(entry.Addresses),
			Ports:           ports,
			Endpoints:       endpoints,
			Selector:        entry.GetWorkloadSelector().GetLabels(),
			ExportTo:        entry.ExportTo,
			SubjectAltNames: entry.SubjectAltNames,
		}
		if s.Resolution.IsDNS() && len(endpoints) == 0 && len(s.Selector) == 0 {
			s.Endpoints = []Endpoint{{Address: s.Host}}
		}
		out = append(out, s)
	}
	return out
}

// addressesOf returns the addresses in canonical spelling: Envoy rejects two listeners at the same address.
func addressesOf(given []string) []string {
	var out []string
	for _, a := range given {
		out = append(out, Address(a))
	}
	return out
}

func resolutionOf(r networking.ServiceEntry_Resolution) Resolution {
	switch r {
	case networking.ServiceEntry_DNS:
		return ResolutionDNS
	case networking.ServiceEntry_DNS_ROUND_ROBIN:
		return ResolutionDNSRoundRobin
	case networking.ServiceEntry_NONE, networking.ServiceEntry_DYNAMIC_DNS:
		return ResolutionNone
	default:
		return ResolutionStatic
	}
}

func portsOf(entry *networking.ServiceEntry) []Port {
	var out []Port
	for _, p := range entry.Ports {
		protocol, _ := ParseProtocol(p.Protocol) // validated
		out = append(out, Port{Name: p.Name, Number: p.Number, Target: p.TargetPort, Protocol: protocol})
	}
	return out
}

func endpointsOf(entry *networking.ServiceEntry) []Endpoint {
	out := slices.Grow([]Endpoint(nil), len(entry.Endpoints))
	for _, e := range entry.Endpoints {
		out = append(out, Endpoint{
			Address: e.Address, Ports: e.Ports, Labels: e.Labels, Weight: e.Weight, Locality: ParseLocality(e.Locality), Network: e.Network,
			ServiceAccount: e.ServiceAccount, Proxied: e.ServiceAccount != "",
		})
	}
	return out
}
