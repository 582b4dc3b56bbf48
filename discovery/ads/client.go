package ads

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Client is one connected Envoy as /debug shows it.
type Client struct {
	Node      string    `json:"node"` // "" until it has said who it is
	Peer      string    `json:"peer"`
	Version   string    `json:"version,omitempty"` // "envoy 1.40.0"
	Variant   string    `json:"variant"`           // sotw or delta
	Connected time.Time `json:"connected"`
	// Generation is the last push that the proxy has answered for, all of it, and Since when.
	Generation int64        `json:"generation"`
	Since      time.Time    `json:"since,omitzero"`
	Types      []ClientType `json:"types"` // in the order CDS, EDS, LDS, RDS, and SDS and NDS where they were asked for
}

// ClientType is how far a client is with one type of resource.
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
	// Refused is what was found that the client refuses. Everything else it has.
	Refused []Refused `json:"refused,omitempty"`
}

// Refused is a resource, or a virtual host of a route configuration, that a client refuses.
type Refused struct {
	Resource string    `json:"resource"`
	Host     string    `json:"virtual_host,omitempty"`
	Instead  string    `json:"instead"` // what the client has in its place
	Text     string    `json:"text"`    // its own words
	Since    time.Time `json:"since"`
}

// Nack is a response that a client refused.
type Nack struct {
	Text    string    `json:"text"` // Envoy's own
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
}

// State says whether a client has what it should have.
type State string

const (
	StateSynced  State = "SYNCED"   // accepted, or it had the same content from an earlier stream
	StateStale   State = "STALE"    // sent and not answered yet, or newer content waits for an answer
	StateNacked  State = "NACKED"   // refused; the content before it is in use
	StateNotSent State = "NOT SENT" // never asked for on this stream, or its turn has not come
)

// describe says the same of a protocol for Client.
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

// searching reports whether it is being found out what the client refuses.
func (s *subscription) searching() bool { return s.isolation != nil && s.isolation.order != nil }

// found is how many refusals of k were found.
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
		c.Types = st.protocol.describe()
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
