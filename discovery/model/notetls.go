package model

import (
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// tlsToPlain adds a note if a policy makes clients send TLS to the HTTP port of a workload whose connected sidecar
// takes plain text there.
func (j *judge) tlsToPlain(meta Meta, host string, r *networking.DestinationRule) {
	s := j.service(host)
	if s == nil || r.TrafficPolicy == nil {
		return
	}
	for _, p := range s.Ports {
		tls, path := r.TrafficPolicy.Tls, "spec.trafficPolicy.tls"
		for i, level := range r.TrafficPolicy.PortLevelSettings {
			if level.GetPort().GetNumber() == p.Number {
				tls, path = level.Tls, index("spec.trafficPolicy.portLevelSettings", i)+".tls"
			}
		}
		if !speaksTLS(tls) || !p.Protocol.IsHTTP() {
			continue
		}
		j.needs(needProxies, "")
		j.needs(needInbound, "")
		j.needs(needEndpoints, host)
		if len(j.connected) == 0 {
			continue
		}
		at := slices.IndexFunc(s.Endpoints, func(e Endpoint) bool {
			ip, err := netip.ParseAddr(e.Address)
			return err == nil && j.takesPlain(ip.Unmap(), e.PortOn(p))
		})
		if at >= 0 {
			j.note(TLSToPlain, meta, path, "%s: clients of %s send TLS to port %d of %s, whose sidecar takes plain text there: requests are answered 503; "+
				"want mode DISABLE, or ingress with tls in a Sidecar of the server", tls.Mode, host, s.Endpoints[at].PortOn(p), s.Endpoints[at].Address)
		}
	}
}

// takesPlain reports whether the connected sidecar at an address does not terminate TLS at one of its workload's ports.
func (j *judge) takesPlain(ip netip.Addr, port uint32) bool {
	if j.atAddress == nil {
		j.atAddress = map[netip.Addr]Proxy{}
		for _, w := range j.connected {
			for _, own := range w.Addresses {
				if !w.Gateway {
					j.atAddress[own.Unmap()] = w
				}
			}
		}
	}
	w, known := j.atAddress[ip]
	if !known || port == 0 || w.Certificate && j.mesh.Peers(w.Namespace).Of(w.Labels).Mode(port) != PeerDisable {
		return false
	}
	sidecar := j.mesh.Sidecar(w.Namespace, w.Labels)
	if sidecar == nil || len(sidecar.Spec.Ingress) == 0 {
		return true
	}
	return slices.ContainsFunc(sidecar.Spec.Ingress, func(l *networking.IstioIngressListener) bool {
		return l.GetPort().GetNumber() == port && l.Tls == nil
	})
}
