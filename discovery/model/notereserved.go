package model

import networking "istio.io/api/networking/v1alpha3"

// reserved adds a note about a port that sidecars reserve for their own listeners.
func (j *judge) reserved(meta Meta, path string, port uint32) {
	if listener := j.mesh.settings.Reserved(port); listener != "" {
		j.note(ReservedPort, meta, path, "%d is the port of every sidecar's own listener %s: sidecars that intercept have no "+
			"listener for the service at this port, but at an address of its own", port, listener)
	}
}

// MaxServerName is the longest server name (SNI), in bytes, that Envoy sends in a TLS handshake.
const MaxServerName = 255

// serverNames adds notes about server names that are too long for a TLS handshake under ISTIO_MUTUAL.
func (j *judge) serverNames(meta Meta, host string, r *networking.DestinationRule) {
	mutual := func(p *networking.TrafficPolicy) bool {
		tls := p.GetTls()
		for _, level := range p.GetPortLevelSettings() {
			if level.GetTls().GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL {
				tls = level.Tls
			}
		}
		return tls.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL && tls.Sni == ""
	}
	service := j.service(host)
	if service == nil || len(service.Ports) == 0 {
		return
	}
	port := service.Ports[0].Number
	for i, subset := range r.Subsets {
		name := ServerName(port, subset.GetName(), host)
		if len(name) > MaxServerName && (mutual(r.TrafficPolicy) || mutual(subset.GetTrafficPolicy())) {
			j.note(LongServerName, meta, index("spec.subsets", i)+".name", "makes the server's name %s, of %d bytes: a handshake "+
				"takes %d, so connections to the subset name no server; want a shorter name, or tls.sni", name, len(name), MaxServerName)
		}
	}
	if name := ServerName(port, "", host); len(name) > MaxServerName && mutual(r.TrafficPolicy) {
		j.note(LongServerName, meta, "spec.host", "makes the server's name %s, of %d bytes: a handshake takes %d, so connections "+
			"name no server; want tls.sni", name, len(name), MaxServerName)
	}
}
