package protocol

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// isolate handles a refusal of k. It reports whether there is now a different response to send.
func (p *Session) isolate(k content.Kind, text string, now time.Time) bool {
	s := &p.types[k]
	if k == content.EDS || k.Asked() || s.sent == nil {
		return false
	}
	if s.isolation == nil {
		s.isolation = &isolation{refused: map[content.Unit]refusal{}}
	}
	i := s.isolation
	i.text, i.at = text, now
	if i.order != nil {
		i.answered(false, s.good(p.share))
	} else if list := s.byItself(k, text); list != nil {
		for _, u := range list {
			if _, known := i.refused[u]; !known {
				i.refused[u] = refusal{instead: itself, text: text, since: now}
				i.found++
			}
		}
		return false
	} else {
		i.begin(s.candidates(p.share), s.good(p.share))
	}
	if i.hopeless() {
		i.order, i.confirm, i.refused, i.trials = nil, content.Unit{}, map[content.Unit]refusal{}, maxTrials
		return false
	}
	return true
}

// skipTrials continues a search while its next response would be the same as what the client has.
func (p *Session) skipTrials(k content.Kind) {
	s := &p.types[k]
	for i := s.isolation; i != nil && i.order != nil && !s.pending && !p.behind(k); {
		i.answered(true, s.good(p.share))
	}
}

// answered applies Envoy's ACK or NACK of the last response of k.
func (p *Session) answered(k content.Kind, refusal string, now time.Time) *Nack {
	s, references := &p.types[k], &p.references[k]
	waited := s.pending
	nack := s.answered(refusal, now)
	if waited {
		switch i := s.isolation; {
		case nack != nil && p.isolate(k, refusal, now):
			s.sent, s.due = s.accepted, nil // it may have applied nothing of a refused response: that is sent again
		case nack == nil && i != nil && i.order != nil:
			i.answered(true, s.good(p.share))
		case nack == nil && i != nil:
			i.trials = 0
		}
		references.answered = references.sent
		if nack == nil {
			references.accepted = references.sent
		}
	}
	return nack
}
