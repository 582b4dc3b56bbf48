package relay

import (
	"maps"
	"slices"
	"time"
)

// Carried is what another image of the agent needs to know of an Envoy.
type Carried struct {
	Started  time.Time `json:"Started"`
	Asked    []string  `json:"Asked"`    // types
	Got      []string  `json:"Got"`      // likewise
	Accepted []string  `json:"Accepted"` // likewise
	Basic    time.Time `json:"Basic"`
	State    State     `json:"State"`
}

// Carry returns what is known of each Envoy.
func (r *Relay) Carry() (out []Carried) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for number, e := range r.envoys {
		e.mu.Lock()
		out = append(out, Carried{
			time.Unix(0, number), slices.Sorted(maps.Keys(e.asked)), slices.Sorted(maps.Keys(e.got)), slices.Sorted(maps.Keys(e.accepted)),
			e.basic, e.state,
		})
		e.mu.Unlock()
	}
	return out
}

// Resume goes on with what another image knew. It must be called before a stream begins.
func (r *Relay) Resume(carried []Carried) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range carried[:min(len(carried), mostEnvoys)] {
		e := newEnvoy(c.Started.UnixNano())
		for to, from := range map[*map[string]bool][]string{&e.asked: c.Asked, &e.got: c.Got, &e.accepted: c.Accepted} {
			for _, typeURL := range from {
				(*to)[typeURL] = true
			}
		}
		e.basic, e.state = c.Basic, c.State
		e.wants.end() // it may serve, and an upgrade makes nothing unready
		r.envoys[e.number] = e
	}
}
