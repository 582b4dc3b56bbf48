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
			Host:       strings.ToLower(host),
			Namespace:  meta.Namespace,
			Created:    meta.Created,
			Resolution: resolution(entry.Resolution),
			Ports:      ports,
			Endpoints:  endpoints,
		}
		if s.Resolution == model.ResolutionDNS && len(endpoints) == 0 {
			s.Endpoints = []model.Endpoint{{Address: s.Host, Ports: targets(entry, nil)}}
		}
		out = append(out, s)
	}
	return out
}

func resolution(r networking.ServiceEntry_Resolution) model.Resolution {
	if r == networking.ServiceEntry_DNS {
		return model.ResolutionDNS
	}
	return model.ResolutionStatic
}

func ports(entry *networking.ServiceEntry) []model.Port {
	var out []model.Port
	for _, p := range entry.Ports {
		protocol, _ := model.ParseProtocol(p.Protocol) // validated
		out = append(out, model.Port{Name: p.Name, Number: p.Number, Protocol: protocol})
	}
	return out
}

func endpoints(entry *networking.ServiceEntry) []model.Endpoint {
	var out []model.Endpoint
	for _, e := range entry.Endpoints {
		out = append(out, model.Endpoint{
			Address: e.Address, Ports: targets(entry, e.Ports), Labels: e.Labels, Weight: e.Weight,
		})
	}
	return out
}

// targets returns the ports that an endpoint listens on where they are not the service's: its own, else the service's
// target.
func targets(entry *networking.ServiceEntry, own map[string]uint32) map[string]uint32 {
	out := map[string]uint32{}
	for _, p := range entry.Ports {
		if n, ok := own[p.Name]; ok {
			out[p.Name] = n
		} else if p.TargetPort != 0 {
			out[p.Name] = p.TargetPort
		}
	}
	return out
}
