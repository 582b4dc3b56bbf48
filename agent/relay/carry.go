package relay

import (
	"maps"
	"slices"
	"time"
)

// Carried is what another image of the agent needs to know of an Envoy.
type Carried struct {
	Started         time.Time
	Asked, Accepted []string // types
	Basic           time.Time
	State           State
}

// Carry returns what is known of each Envoy.
func (r *Relay) Carry() (out []Carried) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for number, e := range r.envoys {
		e.mu.Lock()
		out = append(out, Carried{
			time.Unix(0, number), slices.Sorted(maps.Keys(e.asked)), slices.Sorted(maps.Keys(e.accepted)), e.basic, e.state,
		})
		e.mu.Unlock()
	}
	return out
}

// Resume goes on with what another image knew.
func (r *Relay) Resume(carried []Carried) {
	for _, c := range carried {
		e := r.envoy(Process{Started: c.Started})
		e.mu.Lock()
		for _, typeURL := range c.Asked {
			e.asked[typeURL] = true
		}
		for _, typeURL := range c.Accepted {
			e.accepted[typeURL] = true
		}
		e.basic, e.state = c.Basic, c.State
		e.mu.Unlock()
	}
}
