package ads

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Client is one connected Envoy as /debug shows it.
type Client struct {
	Node      string    `json:"node"` // "" until the first request has named it
	Peer      string    `json:"peer"`
	Version   string    `json:"version,omitempty"` // "envoy 1.40.0"
	Variant   string    `json:"variant"`           // sotw or delta
	Connected time.Time `json:"connected"`
	// Locality is that by which the proxy's endpoints are ordered, "region/zone/subzone". LocalityFrom is "node", the
	// proxy's own workload, or the reason why there is none.
	Locality     string `json:"locality,omitempty"`
	LocalityFrom string `json:"locality_from,omitempty"`
	// Generation is the last push of which the proxy has answered everything, and Since the time of that answer.
	Generation int64        `json:"generation"`
	Since      time.Time    `json:"since,omitzero"`
	Fault      string       `json:"fault,omitempty"` // of its node; see xds.View.DomainFault
	Types      []ClientType `json:"types"`           // in the order CDS, EDS, LDS, RDS, and SDS and NDS if the client requested them
}

// ClientType is the state of one type of resource at a client.
type ClientType struct {
	Name       string `json:"name"` // cds, eds, lds, rds, sds, nds
	TypeURL    string `json:"type_url"`
	State      State  `json:"state"`
	Sent       string `json:"version_sent,omitempty"`
	Acked      string `json:"version_acked,omitempty"`
	Nonce      string `json:"nonce,omitempty"`
	Wildcard   bool   `json:"wildcard,omitempty"` // everything is subscribed
	Subscribed int    `json:"subscribed"`         // names
	Nack       *Nack  `json:"last_nack,omitempty"`
	// Refused lists the resources that the client was found to refuse. It has all others.
	Refused []Refused `json:"refused,omitempty"`
}

// Refused is a resource, or a virtual host of a route configuration, that a client refuses.
type Refused struct {
	Resource string    `json:"resource"`
	Host     string    `json:"virtual_host,omitempty"`
	Instead  string    `json:"instead"` // the state that the client has in its place
	Text     string    `json:"text"`    // the client's error text
	Since    time.Time `json:"since"`
}

// Nack is a response that a client refused.
type Nack struct {
	Text    string    `json:"text"` // Envoy's error text
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
}

// State is how far a client is with the configuration that it should have.
type State string

const (
	StateSynced  State = "SYNCED"   // accepted, or it had the same content from an earlier stream
	StateStale   State = "STALE"    // sent and not answered yet, or newer content waits for an answer
	StateNacked  State = "NACKED"   // refused; the content before it is in use
	StateNotSent State = "NOT SENT" // never requested on this stream, or not its turn yet
)

// describe returns the types of a protocol for Client.
func (p *protocol) describe() []ClientType {
	var out []ClientType
	for k := range kinds {
		s := &p.types[k]
		if k.asked() && !s.asked {
			continue // few proxies do
		}
		out = append(out, ClientType{
			Name: k.String(), TypeURL: k.typeURL(), State: p.stateOf(k), Sent: s.version, Acked: s.acked, Nonce: s.nonce,
			Wildcard: s.wildcard, Subscribed: s.names.len(), Nack: s.nack,
			Refused: s.isolation.list(),
		})
	}
	return out
}

func (i *isolation) list() (out []Refused) {
	if i == nil {
		return nil
	}
	for u, r := range i.refused {
		out = append(out, Refused{u.resource, u.host, string(r.instead), r.text, r.since})
	}
	slices.SortFunc(out, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Host, b.Host))
	})
	return out
}

// searching reports whether a search for the refused units is going on.
func (s *subscription) searching() bool { return s.isolation != nil && s.isolation.order != nil }

// found returns the number of refusals of k that were found.
func (p *protocol) found(k kind) int {
	if i := p.types[k].isolation; i != nil {
		return i.found
	}
	return 0
}

func (p *protocol) stateOf(k kind) State {
	switch s := &p.types[k]; {
	case s.version == "":
		return StateNotSent
	case s.nacked:
		return StateNacked
	case p.settled(k):
		return StateSynced
	}
	return StateStale
}

func (st *stream) client() Client {
	st.mu.Lock()
	defer st.mu.Unlock()
	c := Client{
		Node: st.node, Peer: st.peer, Version: st.version, Variant: st.variant.String(), Connected: st.connected,
		Generation: st.reached, Since: st.at, Types: []ClientType{},
	}
	if st.protocol != nil {
		c.Types, c.Fault = st.protocol.describe(), st.fault(st.shown)
		c.Locality, c.LocalityFrom = st.reader.Outbound.Locality.String(), st.place.source()
	}
	return c
}

// labels are those of the metric that counts connected proxies.
func (st *stream) labels() [3]string {
	st.mu.Lock()
	defer st.mu.Unlock()
	role, _, _ := strings.Cut(st.node, "~")
	return [3]string{role, st.version, st.variant.String()}
}
