package ads

import (
	"cmp"
	"sort"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// Client is one connected Envoy as /debug shows it.
type Client struct {
	Node      string `json:"node"` // "" until the first request has named it
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`     // in its ID, without the namespace
	Identity  string `json:"identity,omitempty"` // that its certificate proves, spiffe://…; "" without one
	// CertificateFrom and CertificateUntil are the life of that certificate, as it was shown when the proxy connected.
	CertificateFrom  time.Time `json:"certificate_from,omitzero"`
	CertificateUntil time.Time `json:"certificate_until,omitzero"`

	Peer      string    `json:"peer"`
	Version   string    `json:"version,omitempty"` // "envoy 1.40.0"
	Agent     string    `json:"agent,omitempty"`   // the version of its agent, "v0.2.0"; "" if it does not say
	Variant   string    `json:"variant"`           // sotw or delta
	Connected time.Time `json:"connected"`
	// Locality is that by which the proxy's endpoints are ordered, "region/zone/subzone". LocalityFrom is "node", the
	// proxy's own workload, or the reason why there is none.
	Locality     string `json:"locality,omitempty"`
	LocalityFrom string `json:"locality_from,omitempty"`
	// Generation is the last push of which the proxy has answered everything, and Since the time of that answer.
	Generation int64           `json:"generation"`
	Since      time.Time       `json:"since,omitzero"`
	Fault      string          `json:"fault,omitempty"` // of its node; see xds.View.DomainFault
	Waits      protocol.Wait   `json:"waits,omitzero"`  // why it keeps what it has
	Types      []protocol.Type `json:"types"`           // in the order CDS, EDS, LDS, RDS, and SDS and NDS if the client requested them
}

func (st *stream) client() Client {
	st.mu.Lock()
	defer st.mu.Unlock()
	c := Client{
		Node: st.node, Peer: st.peer, Version: st.version, Agent: st.agent.Version, Variant: st.variant.String(), Connected: st.connected,
		Generation: st.reached, Since: st.at, Types: []protocol.Type{},
	}
	if st.identified() {
		c.Namespace = st.reader.Inbound.Namespace
		c.Name = proxyName(st.node, c.Namespace)
		if st.proven != (identity{}) {
			c.Identity = protocol.Clip(st.proven.String())
			if info, is := linkOf(st.wire.Context()).AuthInfo.(credentials.TLSInfo); is && len(info.State.PeerCertificates) > 0 {
				c.CertificateFrom, c.CertificateUntil = info.State.PeerCertificates[0].NotBefore, info.State.PeerCertificates[0].NotAfter
			}
		}
	}
	if st.session != nil {
		c.Types, c.Fault, c.Waits = st.session.Describe(), st.fault(st.shown), st.session.Wait()
		c.Locality, c.LocalityFrom = st.reader.Outbound.Locality.String(), st.place.source()
	}
	return c
}

// Clients returns the connected proxies, ordered by node, then by age.
func (s *Server) Clients() []Client {
	clients := []Client{}
	for _, st := range s.all() {
		clients = append(clients, st.client())
	}
	sort.Slice(clients, func(i, j int) bool {
		a, b := clients[i], clients[j]
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.Connected.Compare(b.Connected)) < 0
	})
	return clients
}
