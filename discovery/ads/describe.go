package ads

import (
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
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

// reached reports whether Envoy has accepted all of the newest state, or refused it.
func (p *protocol) reached() bool {
	for k := range kinds {
		if s := &p.types[k]; s.pending || p.behind(k) {
			return false
		}
	}
	return p.rollout == p.latest
}

// idle reports whether every response was answered.
func (p *protocol) idle() bool {
	for k := range kinds {
		if p.types[k].pending {
			return false
		}
	}
	return true
}

// waitsSince returns the time since which the oldest response has no answer, the zero time if all have one. Envoy
// answers for clusters when they are warm, however long that takes: an Envoy that has sent any request since then is
// not slow.
func (p *protocol) waitsSince() (oldest time.Time) {
	for k := range kinds {
		s := &p.types[k]
		if !s.pending || k == cds && p.heard.After(s.since) {
			continue
		}
		if oldest.IsZero() || s.since.Before(oldest) {
			oldest = s.since
		}
	}
	return oldest
}

// refused returns the hosts whose routes or clusters the client refuses, nil for none.
func (p *protocol) refused() (out []model.Refusal) {
	for k := range kinds {
		for _, part := range p.types[k].isolation.list() {
			switch {
			case k == rds && part.Host != "":
				host := part.Host
				if colon := strings.LastIndexByte(host, ':'); colon >= 0 { // the port
					host = host[:colon]
				}
				out = append(out, model.Refusal{Host: host, Instead: part.Instead, Text: part.Text, Routes: true})
			case k == cds:
				if name := strings.Split(part.Resource, "|"); len(name) == 4 && name[0] == "outbound" {
					out = append(out, model.Refusal{Host: name[3], Instead: part.Instead, Text: part.Text})
				}
			}
		}
	}
	return out
}

// waits reports whether the last response of k has no answer yet.
func (p *protocol) waits(k kind) bool { return p.types[k].pending }

// waitsStill reports whether the response before those is still the last one of k, without an answer.
func (p *protocol) waitsStill(k kind, responses []response) bool {
	return p.types[k].waits(responses, k)
}

// searching reports whether a search for the refused units of k is going on.
func (p *protocol) searching(k kind) bool { return p.types[k].searching() }

// parts returns the parts of k that the client was found to refuse.
func (p *protocol) parts(k kind) []Refused { return p.types[k].isolation.list() }

// units yields those parts as units, which compare equal if two clients refuse the same.
func (p *protocol) units(k kind) iter.Seq[unit] {
	if i := p.types[k].isolation; i != nil {
		return maps.Keys(i.refused)
	}
	return func(func(unit) bool) {}
}

// sent returns the set of each kind that the client was sent last; nil where that is not known.
func (p *protocol) sent() (sets [kinds]*set) {
	for k := range kinds {
		sets[k] = p.types[k].sent
	}
	return sets
}
