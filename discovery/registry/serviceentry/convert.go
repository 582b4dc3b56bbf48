package serviceentry

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// services returns what the ServiceEntry objects among objects declare.
func services(objects []*model.Object) []*model.Service {
	var out []*model.Service
	for _, o := range objects {
		if entry, ok := o.Spec.(*networking.ServiceEntry); ok {
			out = append(out, convert(o.Meta, entry)...)
		}
	}
	return out
}

// convert returns a service for each host. They share their ports, and their endpoints unless Envoy resolves the host.
func convert(meta model.Meta, entry *networking.ServiceEntry) []*model.Service {
	ports, endpoints := ports(entry), endpoints(entry)
	var out []*model.Service
	for _, host := range entry.Hosts {
		s := &model.Service{
			Host:            strings.ToLower(host),
			Namespace:       meta.Namespace,
			Created:         meta.Created,
			Resolution:      resolution(entry.Resolution),
			External:        entry.Location == networking.ServiceEntry_MESH_EXTERNAL,
			Addresses:       entry.Addresses,
			Ports:           ports,
			Endpoints:       endpoints,
			Selector:        entry.GetWorkloadSelector().GetLabels(),
			ExportTo:        entry.ExportTo,
			SubjectAltNames: entry.SubjectAltNames,
		}
		if s.Resolution.IsDNS() && len(endpoints) == 0 && len(s.Selector) == 0 {
			s.Endpoints = []model.Endpoint{{Address: s.Host}}
		}
		out = append(out, s)
	}
	return out
}

func resolution(r networking.ServiceEntry_Resolution) model.Resolution {
	switch r {
	case networking.ServiceEntry_DNS:
		return model.ResolutionDNS
	case networking.ServiceEntry_DNS_ROUND_ROBIN:
		return model.ResolutionDNSRoundRobin
	case networking.ServiceEntry_NONE:
		return model.ResolutionNone
	default:
		return model.ResolutionStatic
	}
}

func ports(entry *networking.ServiceEntry) []model.Port {
	var out []model.Port
	for _, p := range entry.Ports {
		protocol, _ := model.ParseProtocol(p.Protocol) // validated
		out = append(out, model.Port{Name: p.Name, Number: p.Number, Target: p.TargetPort, Protocol: protocol})
	}
	return out
}

func endpoints(entry *networking.ServiceEntry) []model.Endpoint {
	var out []model.Endpoint
	for _, e := range entry.Endpoints {
		out = append(out, model.EndpointOf(e, e.Labels))
	}
	return out
}
