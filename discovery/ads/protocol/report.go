package protocol

import (
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Type is the state of one type of resource at a client.
type Type struct {
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

// Describe returns the types of a protocol for Client.
func (p *Session) Describe() []Type {
	var out []Type
	for k := range content.Kinds {
		s := &p.types[k]
		if k.Asked() && !s.asked {
			continue // few proxies do
		}
		out = append(out, Type{
			Name: k.String(), TypeURL: k.TypeURL(), State: p.stateOf(k), Sent: s.version, Acked: s.acked, Nonce: s.nonce,
			Wildcard: s.wildcard, Subscribed: s.names.Len(), Nack: s.nack,
			Refused: s.isolation.list(),
		})
	}
	return out
}

// Found returns the number of refusals of k that were found.
func (p *Session) Found(k content.Kind) int {
	if i := p.types[k].isolation; i != nil {
		return i.found
	}
	return 0
}

func (p *Session) stateOf(k content.Kind) State {
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

// Reached reports whether Envoy has accepted all of the newest state, or refused it.
func (p *Session) Reached() bool {
	for k := range content.Kinds {
		if s := &p.types[k]; s.pending || p.behind(k) {
			return false
		}
	}
	return p.rollout == p.latest
}

// Idle reports whether every response was answered.
func (p *Session) Idle() bool {
	for k := range content.Kinds {
		if p.types[k].pending {
			return false
		}
	}
	return true
}

// WaitsSince returns the time since which the oldest response has no answer, the zero time if all have one. Envoy
// answers for clusters when they are warm, however long that takes: an Envoy that has sent any request since then is
// not slow.
func (p *Session) WaitsSince() (oldest time.Time) {
	for k := range content.Kinds {
		s := &p.types[k]
		if !s.pending || k == content.CDS && p.heard.After(s.since) {
			continue
		}
		if oldest.IsZero() || s.since.Before(oldest) {
			oldest = s.since
		}
	}
	return oldest
}

// Refused returns the hosts whose routes or clusters the client refuses, nil for none.
func (p *Session) Refused() (out []model.Refusal) {
	for k := range content.Kinds {
		for _, part := range p.types[k].isolation.list() {
			switch {
			case k == content.RDS && part.Host != "":
				host := part.Host
				if colon := strings.LastIndexByte(host, ':'); colon >= 0 { // the port
					host = host[:colon]
				}
				out = append(out, model.Refusal{Host: host, Instead: part.Instead, Text: part.Text, Routes: true})
			case k == content.CDS:
				if name := strings.Split(part.Resource, "|"); len(name) == 4 && name[0] == "outbound" {
					out = append(out, model.Refusal{Host: name[3], Instead: part.Instead, Text: part.Text})
				}
			}
		}
	}
	return out
}

// Unbound returns the listeners that the client refuses, nil for none: those that were found, or else the whole
// response.
func (p *Session) Unbound() (out []model.Unbound) {
	s := &p.types[content.LDS]
	for _, part := range s.isolation.list() {
		out = append(out, model.Unbound{Name: part.Resource, Text: part.Text})
	}
	if len(out) == 0 && s.nacked && s.nack != nil {
		out = append(out, model.Unbound{Name: "of its configuration", Text: s.nack.Text})
	}
	return out
}

// Waits reports whether the last response of k has no answer yet.
func (p *Session) Waits(k content.Kind) bool { return p.types[k].pending }

// WaitsStill reports whether the response before those is still the last one of k, without an answer.
func (p *Session) WaitsStill(k content.Kind, responses []Response) bool {
	return p.types[k].waits(responses, k)
}

// Searching reports whether a search for the refused resources of k is going on.
func (p *Session) Searching(k content.Kind) bool { return p.types[k].searching() }

// RefusedResources returns the resources and virtual hosts of k that the client was found to refuse.
func (p *Session) RefusedResources(k content.Kind) []Refused { return p.types[k].isolation.list() }

// RefusedIDs yields their IDs, which compare equal if two clients refuse the same.
func (p *Session) RefusedIDs(k content.Kind) iter.Seq[content.ResourceID] {
	if i := p.types[k].isolation; i != nil {
		return maps.Keys(i.refused)
	}
	return func(func(content.ResourceID) bool) {}
}

// Sent returns the set of each kind that the client was sent last; nil where that is not known.
func (p *Session) Sent() (sets [content.Kinds]*content.Set) {
	for k := range content.Kinds {
		sets[k] = p.types[k].sent
	}
	return sets
}
