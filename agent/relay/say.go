package relay

import (
	"errors"
	"maps"

	"github.com/pilotlight/pilotlight/agent/lastgood"
)

var errNews = errors.New("the agent has something else to say of this proxy")

// say adds what the agent says to the first request of a stream, and has news end the stream until done is called.
func (s *stream) say(first request, end func()) (said request, done func(), err error) {
	r := s.relay
	if r.config.Says == nil || first.Node == nil {
		return first, func() {}, nil
	}
	r.mu.Lock()
	s.said = r.config.Says() // under the lock: no news comes in between
	r.streams[s] = end
	r.mu.Unlock()
	first.message, first.Node, err = lastgood.WithMetadata(first.message, first.Node, s.said)
	return first, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.streams, s)
	}, err
}

// Tell has discovery learn what Says returns now: a node does not change within a stream, so each stream on which something else was
// said ends, and Envoy comes back, with the versions of what it has.
func (r *Relay) Tell() {
	now := r.config.Says()
	r.mu.Lock()
	defer r.mu.Unlock()
	for s, end := range r.streams {
		if !maps.Equal(s.said, now) {
			end()
		}
	}
}
