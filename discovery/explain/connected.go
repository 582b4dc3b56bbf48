package explain

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/xds"
	"github.com/pilotlight/pilotlight/node"
)

// Connected is a proxy that is connected to the discovery that answers.
type Connected struct {
	Node    string // its ID
	View    xds.View
	Account string // the service account that its certificate proves; "" without one
}

// sender is the proxy from which a request comes.
type sender struct {
	id        node.ID
	view      xds.View
	account   string
	connected bool
}

// sender returns the connected proxy that From names. If there is none, or the question says more of it, the proxy is made up, as injection
// would make it.
func (q Question) sender(m *model.Mesh, all []Connected) (sender, error) {
	if c := named(all, q.From); c != nil && len(q.Metadata) == 0 {
		return c.sender(m), nil
	}
	if strings.Contains(q.From, "~") {
		return made(proxyOf(q.From, map[string]any{}, q.Metadata))
	}
	w, err := workload(m, q.From)
	if err != nil {
		return sender{}, err
	}
	if c := sidecarAt(all, w.Namespace, w.Addresses[0]); c != nil && len(q.Metadata) == 0 {
		return c.sender(m), nil
	}
	return made(sidecarOf(m, w, q.Metadata))
}

func made(p xds.Proxy, err error) (sender, error) {
	if err != nil {
		return sender{}, err
	}
	account, _ := p.Metadata.Extra["SERVICE_ACCOUNT"].(string)
	return sender{id: p.ID, view: xds.ViewOf(p), account: account}, nil
}

// sender returns the proxy with the account that its certificate proves, else that of the workload at its address.
func (c *Connected) sender(m *model.Mesh) sender {
	id, _ := node.ParseID(c.Node) // it was parsed when the proxy connected
	s := sender{id: id, view: c.View, account: c.Account, connected: true}
	if s.account == "" {
		if w, err := workload(m, id.IP); err == nil {
			s.account = w.ServiceAccount
		}
	}
	return s
}

// named returns the connected proxy with a node ID, the name in one, or NAMESPACE/NAME of it; nil for none.
func named(all []Connected, text string) *Connected {
	i := slices.IndexFunc(all, func(c Connected) bool {
		id, err := node.ParseID(c.Node)
		namespace := c.View.Outbound.Namespace
		return c.Node == text || err == nil && (id.Name == text || namespace+"/"+strings.TrimSuffix(id.Name, "."+namespace) == text)
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// sidecarAt returns the one connected sidecar of a namespace that says it has an address; nil for none, and for several: one of them lies.
func sidecarAt(all []Connected, namespace, address string) (found *Connected) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil
	}
	for i, c := range all {
		in := c.View.Inbound
		if in.Gateway || in.Proxyless || in.Namespace != namespace || !slices.Contains(c.View.Proxy().Addresses, ip.Unmap()) {
			continue
		}
		if found != nil && found.Node != c.Node {
			return nil
		}
		found = &all[i]
	}
	return found
}

// title is the line of a road that says whose proxy it is.
func (r Road) title() string {
	if r.Connected {
		return r.Proxy + ", which is connected"
	}
	return r.Proxy
}
