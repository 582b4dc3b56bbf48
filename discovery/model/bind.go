package model

import (
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Any namespace may have a Gateway that selects the gateway workloads of another one. It must not take what the owner of
// these workloads serves: the Gateways of the workloads' own namespace go first, and a server of another namespace opens
// neither a Unix socket, for which Envoy removes any file at the path, nor one address of a port that an earlier server
// has on all addresses.

// GatewaysAt returns the Gateways that select a gateway workload of a namespace with these labels: those of the same
// namespace, then those of others; within both the oldest is first. A Gateway with an empty selector selects every
// gateway workload.
func (m *Mesh) GatewaysAt(namespace string, labels map[string]string) []*Config[*networking.Gateway] {
	var own, others []*Config[*networking.Gateway]
	for _, g := range m.gateways {
		switch {
		case !Selects(g.Spec.Selector, labels) || m.keptFrom(g.Kind, g.Namespace, g.Name, namespace):
		case g.Namespace == namespace:
			own = append(own, g)
		default:
			others = append(others, g)
		}
	}
	return append(own, others...)
}

// Binds decides which servers of Gateways a gateway workload opens. Its zero value with a namespace is ready for use, for
// servers in the order of GatewaysAt.
type Binds struct {
	Namespace string          // of the workload
	whole     map[uint32]Meta // the first Gateway that has the port on every address
}

// Refused returns why the workload does not open the address of a server, "" if it does. A fault that is due to another
// Gateway comes with it.
func (b *Binds) Refused(g Meta, s *networking.Server) (reason string, other Meta) {
	if path, ok := strings.CutPrefix(s.GetBind(), "unix://"); ok {
		switch {
		case AgentSocket(path):
			return "is in a directory of the proxy's agent", Meta{}
		case g.Namespace != b.Namespace:
			return "is a Unix socket, which a gateway opens for the Gateways of its own namespace, " + b.Namespace + ", alone", Meta{}
		}
		return "", Meta{}
	}
	port := s.GetPort().GetNumber()
	first, taken := b.whole[port]
	switch {
	case isUnspecified(s.GetBind()):
		if !taken {
			if b.whole == nil {
				b.whole = map[uint32]Meta{}
			}
			b.whole[port] = g
		}
	case taken && g.Namespace != b.Namespace && first.Namespace != g.Namespace:
		return "would take the connections to this address from " + name(first) + ", which has the port on every address", first
	}
	return "", Meta{}
}

// isUnspecified reports whether a bind stands for every address.
func isUnspecified(bind string) bool {
	ip, err := netip.ParseAddr(bind)
	return bind == "" || err == nil && ip.Unmap().IsUnspecified()
}

// foreignBinds adds a note for each server of a Gateway that known gateway workloads do not open.
func (j *judge) foreignBinds() {
	type workload struct{ namespace, labels string }
	seen := map[workload]bool{}
	type server struct {
		gateway *Config[*networking.Gateway]
		index   int
	}
	noted := map[server]bool{}
	for _, w := range j.connected {
		at := workload{w.Namespace, selectorKey(w.Labels)}
		if !w.Gateway || seen[at] {
			continue
		}
		seen[at] = true
		binds := Binds{Namespace: w.Namespace}
		for _, g := range j.mesh.GatewaysAt(w.Namespace, w.Labels) {
			for i, s := range g.Spec.Servers {
				reason, other := binds.Refused(g.Meta, s)
				if reason == "" || noted[server{g, i}] {
					continue
				}
				noted[server{g, i}] = true
				j.note(ForeignBind, g.Meta, index("spec.servers", i)+".bind", "is %q: it %s: the server is not served at gateways of namespace %s",
					s.Bind, reason, w.Namespace)
				j.notes[len(j.notes)-1].Other = other
			}
		}
	}
}

// homes returns the namespaces of the known gateway workloads that a Gateway selects.
func (j *judge) homes(g *networking.Gateway) (out []string) {
	for _, w := range j.connected {
		if w.Gateway && Selects(g.Selector, w.Labels) && !slices.Contains(out, w.Namespace) {
			out = append(out, w.Namespace)
		}
	}
	return out
}

// byRightToPorts returns the Gateways in the order in which gateways serve them: those of the namespace of the workloads
// that they select first.
func (j *judge) byRightToPorts() []*Config[*networking.Gateway] {
	out := slices.Clone(j.mesh.gateways)
	foreign := make(map[*Config[*networking.Gateway]]int, len(out))
	for _, g := range out {
		if !slices.Contains(j.homes(g.Spec), g.Namespace) {
			foreign[g] = 1
		}
	}
	slices.SortStableFunc(out, func(a, b *Config[*networking.Gateway]) int { return foreign[a] - foreign[b] })
	return out
}
