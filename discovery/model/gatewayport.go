package model

// GatewayPorts returns the ports that a gateway workload of a namespace with these labels opens for the ports of Gateways'
// servers, where they differ: the ports to which the Services lead that select it, as in Istio. A client dials port 80 of
// such a Service, and the workload listens on 8080. Of several Services with one port the one with the first right counts.
func (m *Mesh) GatewayPorts(namespace string, labels map[string]string) map[uint32]uint32 {
	var out map[uint32]uint32
	known := map[uint32]bool{}
	for _, s := range m.selecting[namespace] {
		if s.Registry == "" || !Selects(s.Selector, labels) { // a ServiceEntry is no door to a gateway
			continue
		}
		for _, p := range s.Ports {
			if known[p.Number] {
				continue
			}
			if known[p.Number] = true; p.Target != 0 && p.Target != p.Number {
				if out == nil {
					out = map[uint32]uint32{}
				}
				out[p.Number] = p.Target
			}
		}
	}
	return out
}

// leadsTo returns the port that is opened for a number.
func leadsTo(ports map[uint32]uint32, number uint32) uint32 {
	if target := ports[number]; target != 0 {
		return target
	}
	return number
}
