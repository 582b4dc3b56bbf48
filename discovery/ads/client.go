package ads

import (
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
	Types      []ClientType `json:"types"` // in the order CDS, EDS, LDS, RDS, and SDS where it was asked for
}

// ClientType is how far a client is with one type of resource.
type ClientType struct {
	Name       string `json:"name"` // cds, eds, lds, rds, sds
	TypeURL    string `json:"type_url"`
	State      State  `json:"state"`
	Sent       string `json:"version_sent,omitempty"`
	Acked      string `json:"version_acked,omitempty"`
	Nonce      string `json:"nonce,omitempty"`
	Wildcard   bool   `json:"wildcard,omitempty"` // everything is subscribed
	Subscribed int    `json:"subscribed"`         // names
	Nack       *Nack  `json:"last_nack,omitempty"`
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
		if k == sds && !s.asked {
			continue // few proxies do
		}
		out = append(out, ClientType{
			Name: k.String(), TypeURL: k.typeURL(), State: p.stateOf(k), Sent: s.version, Acked: s.acked, Nonce: s.nonce,
			Wildcard: s.wildcard, Subscribed: s.names.len(), Nack: s.nack,
		})
	}
	return out
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
