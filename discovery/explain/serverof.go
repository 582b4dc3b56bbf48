package explain

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// client returns what servers learn of a proxy.
func (q Question) client(m *model.Mesh, p xds.Proxy) Client {
	ip, _ := netip.ParseAddr(p.ID.IP)
	account, _ := p.Metadata.Extra["SERVICE_ACCOUNT"].(string)
	return Client{Principal: principalOf(m, p.Namespace(), account), Address: ip}
}

// principalOf returns the identity of a service account, "" if that is not known.
func principalOf(m *model.Mesh, namespace, account string) string {
	if account == "" {
		return ""
	}
	return "spiffe://" + m.Settings().TrustDomains()[0] + "/ns/" + namespace + "/sa/" + account
}

// servers returns what finds the proxy of an endpoint of a cluster. Each is made once.
func (q Question) servers(m *model.Mesh) func(cluster, address string) Server {
	made := map[string]Server{}
	return func(cluster, address string) Server {
		key := cluster + " " + address
		if s, known := made[key]; known {
			return s
		}
		made[key] = q.server(m, cluster, address)
		return made[key]
	}
}

func (q Question) server(m *model.Mesh, cluster, address string) Server {
	host := cluster[strings.LastIndexByte(cluster, '|')+1:]
	ip, _ := splitPort(address)
	ip = strings.Trim(ip, "[]")
	at, err := netip.ParseAddr(ip)
	if err != nil {
		return Server{Absent: "its address is not one of IP"}
	}
	services := m.ServicesAt(at)
	i := slices.IndexFunc(services, func(s *model.Service) bool { return s.Host == host })
	if i < 0 {
		return Server{Absent: "the address is of no endpoint, such as that of a gateway to another network"}
	}
	s := services[i]
	k := slices.IndexFunc(s.Endpoints, func(e model.Endpoint) bool { return e.Address == ip })
	switch {
	case s.External:
		return Server{Absent: "it is outside of the mesh"}
	case k < 0 || !s.Endpoints[k].TakesMutualTLS() && len(q.ServerMetadata) == 0:
		return Server{Absent: "nothing says that it has one: it has no service account"}
	}
	e := s.Endpoints[k]
	w := &model.Workload{Namespace: s.Namespace, Name: nameAt(m, s.Namespace, ip), Addresses: []string{ip}, Labels: e.Labels, Proxied: e.Proxied, ServiceAccount: e.ServiceAccount}
	proxy, err := sidecarOf(m, w, q.ServerMetadata)
	if err != nil {
		return Server{Absent: err.Error()}
	}
	view := xds.ViewOf(proxy).Inbound
	origins := xds.InboundOriginsOf(m, view)
	return Server{
		Proxy: proxy.ID.String(), Principal: principalOf(m, s.Namespace, e.ServiceAccount), Listeners: xds.BuildInbound(m, view).Listeners,
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
