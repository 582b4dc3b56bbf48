package explain

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// clientOf returns what servers learn of a proxy.
func clientOf(m *model.Mesh, s sender) Client {
	ip, _ := netip.ParseAddr(s.id.IP)
	return Client{Principal: principalOf(m, s.view.Outbound.Namespace, s.account), Address: ip}
}

// principalOf returns the identity of a service account, "" if that is not known.
func principalOf(m *model.Mesh, namespace, account string) string {
	if account == "" {
		return ""
	}
	return "spiffe://" + m.Settings().TrustDomains()[0] + "/ns/" + namespace + "/sa/" + account
}

// servers returns what finds the proxy of an endpoint of a cluster. Each is made once.
func (q Question) servers(m *model.Mesh, all []Connected) func(cluster, address string) Server {
	made := map[string]Server{}
	return func(cluster, address string) Server {
		key := cluster + " " + address
		if s, known := made[key]; known {
			return s
		}
		made[key] = q.server(m, all, cluster, address)
		return made[key]
	}
}

func (q Question) server(m *model.Mesh, all []Connected, cluster, address string) Server {
	host := cluster[strings.LastIndexByte(cluster, '|')+1:]
	ip, _ := splitPort(address)
	ip = strings.Trim(ip, "[]")
	parsed, err := netip.ParseAddr(ip)
	if err != nil {
		return Server{Absent: "its address is not one of IP"}
	}
	services := m.ServicesAt(parsed)
	i := slices.IndexFunc(services, func(s *model.Service) bool { return s.Host == host })
	if !strings.Contains(cluster, "|") { // the program names the address, and no service
		i = min(0, len(services)-1)
		for k, s := range services {
			if sidecarAt(all, s.Namespace, ip) != nil {
				i = k
			}
		}
	}
	if i < 0 {
		return Server{Absent: "the address is of no endpoint, such as that of a gateway to another network"}
	}
	s := services[i]
	k := slices.IndexFunc(s.Endpoints, func(e model.Endpoint) bool { return e.Address == ip })
	c := sidecarAt(all, s.Namespace, ip)
	switch {
	case s.External:
		return Server{Absent: "it is outside of the mesh"}
	case k < 0 || !s.Endpoints[k].TakesMutualTLS() && len(q.ServerMetadata) == 0 && c == nil:
		return Server{Absent: "nothing says that it has one: it has no service account"}
	}
	e := s.Endpoints[k]
	if c != nil && len(q.ServerMetadata) == 0 {
		return serverOf(m, c.Node+", which is connected", principalOf(m, s.Namespace, cmp.Or(c.Account, e.ServiceAccount)), c.View.Inbound)
	}
	w := &model.Workload{Namespace: s.Namespace, Name: nameAt(m, s.Namespace, ip), Addresses: []string{ip}, Labels: e.Labels, Proxied: e.Proxied, ServiceAccount: e.ServiceAccount}
	proxy, err := sidecarOf(m, w, q.ServerMetadata)
	if err != nil {
		return Server{Absent: err.Error()}
	}
	return serverOf(m, proxy.ID.String(), principalOf(m, s.Namespace, e.ServiceAccount), xds.ViewOf(proxy).Inbound)
}

// serverOf returns the proxy of an endpoint.
func serverOf(m *model.Mesh, id, principal string, view xds.Inbound) Server {
	origins := xds.InboundOriginsOf(m, view)
	return Server{
		Proxy: id, Principal: principal, Listeners: xds.BuildInbound(m, view).Listeners,
		Origins: func(p Part) []Place {
			if p.Policy != "" {
				return placed(origins.Policy(p.Policy))
			}
			return placed(origins.Port(p.Port))
		},
	}
}

// nameAt returns the name of the workload that has an address, else a name made of that.
func nameAt(m *model.Mesh, namespace, ip string) (name string) {
	for w := range m.Workloads() {
		if w.Namespace == namespace && slices.Contains(w.Addresses, ip) {
			name = cmp.Or(name, w.Name)
		}
	}
	return cmp.Or(name, strings.NewReplacer(":", "-", ".", "-").Replace(ip))
}
