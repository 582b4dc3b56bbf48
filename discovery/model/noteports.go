package model

import (
	"maps"
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// Notes about ports that connected proxies cannot open: such a proxy receives no listener at such a port, since Envoy
// would reject the listener in every update.

// servicePort adds a note if connected proxies have no listener for a service's port.
func (j *judge) servicePort(meta Meta, path string, s *networking.ServiceEntry, p *networking.ServicePort) {
	protocol, _ := ParseProtocol(p.GetProtocol())
	if protocol == UDP {
		return
	}
	loopback := slices.ContainsFunc(s.Addresses, func(address string) bool {
		ip, err := netip.ParseAddr(address)
		return err == nil && ip.IsLoopback()
	})
	exportTo := orDefault(s.ExportTo, j.mesh.settings.Config.GetDefaultServiceExportTo())
	j.port(meta, path, p.GetNumber(), "a service's port, or Sidecars that do not import it there", func(w Proxy) portUse {
		switch {
		case w.Gateway || !Visible(exportTo, meta.Namespace, w.Namespace):
			return unused
		case !w.Binds && (protocol.IsHTTP() || len(s.Addresses) == 0):
			return handed
		case w.Binds && (loopback || !w.HTTPProxy):
			return binds
		default:
			return unused
		}
	})
}

// gateway checks that some workload has the labels of the selector, and that connected proxies can open the ports of
// the servers.
func (j *judge) gateway(meta Meta, g *networking.Gateway) {
	if j.selector(meta, "spec.selector", g.Selector, "") {
		j.proxies(meta, "spec.selector", g.Selector, j.edge)
	}
	j.doors(meta, g)
	j.redirects(meta, g)
	j.wider(meta, g)
	for i, s := range g.Servers {
		j.gatewayPort(meta, index("spec.servers", i)+".port.number", s.GetPort().GetNumber(), g.Selector)
	}
}

// gatewayPort checks a server's port: each number that connected proxies open for it.
func (j *judge) gatewayPort(meta Meta, path string, number uint32, selector map[string]string) {
	opened := map[uint32]bool{}
	opens := func(w Proxy) uint32 { return leadsTo(j.mesh.GatewayPorts(w.Namespace, w.Labels), number) }
	for _, w := range j.connected {
		if w.Gateway && Selects(selector, w.Labels) {
			opened[opens(w)] = true
		}
	}
	for _, own := range slices.Sorted(maps.Keys(opened)) {
		j.port(meta, path, own, "a server's port, or a Service before the proxies that leads it to their targetPort", func(w Proxy) portUse {
			if w.Gateway && Selects(selector, w.Labels) && opens(w) == own {
				return binds
			}
			return unused
		})
	}
}

// sidecarPorts checks the ports of the listeners that a Sidecar declares.
func (j *judge) sidecarPorts(meta Meta, s *networking.Sidecar) {
	mode := func(capture networking.CaptureMode) func(w Proxy) portUse {
		return func(w Proxy) portUse {
			switch {
			case w.Gateway || w.Namespace != meta.Namespace || !Selects(s.GetWorkloadSelector().GetLabels(), w.Labels):
				return unused
			case capture == networking.CaptureMode_NONE || w.Binds && capture == networking.CaptureMode_DEFAULT:
				return binds
			default:
				return handed
			}
		}
	}
	for i, l := range s.Egress {
		j.port(meta, index("spec.egress", i)+".port.number", l.GetPort().GetNumber(), "a port", mode(l.GetCaptureMode()))
	}
	for i, l := range s.Ingress {
		how := mode(l.GetCaptureMode())
		j.port(meta, index("spec.ingress", i)+".port.number", l.GetPort().GetNumber(), "a port", func(w Proxy) portUse {
			if how(w) == binds {
				return binds
			}
			return unused // virtualInbound accepts its connections, so any number is possible
		})
	}
}

// portUse is the use of a port of an object by a proxy.
type portUse int

const (
	unused portUse = iota // no listener
	handed                // a listener that does not bind: it receives intercepted connections
	binds                 // a listener that binds the port
)

// port adds a note if some connected proxies cannot have a listener at a port, and describes one of these proxies.
func (j *judge) port(meta Meta, path string, number uint32, want string, how func(Proxy) portUse) {
	j.needs(needProxies, "")
	taken, low := "", 0
	var example Proxy
	for _, w := range j.connected {
		at := ""
		h := how(w)
		switch h {
		case handed:
			at = w.Own.Listener(number)
		case binds:
			at = w.Own.Taken(number)
			if w.Unprivileged && number > 0 && number < UnprivilegedFrom {
				low++
			}
		}
		if at != "" && taken == "" {
			taken, example = at, w
		}
	}
	if taken != "" {
		j.note(ReservedPort, meta, path, "%d is the port of a proxy's own %s: such proxies, one of namespace %s with labels {%s}, "+
			"have no listener for it; want another number for %s", number, taken, example.Namespace, pairs(example.Labels), want)
	}
	if low > 0 {
		j.note(PrivilegedPort, meta, path, "%d proxies that are connected cannot open port %d, as their UNPRIVILEGED_POD says, and have no "+
			"listener for it: want %d or more for %s, or the sysctl net.ipv4.ip_unprivileged_port_start=0 for their pods and no UNPRIVILEGED_POD",
			low, number, UnprivilegedFrom, want)
	}
}
