package discovery

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Linger is how long a removed service is served where nothing else is set.
const Linger = time.Second

// linger keeps a service of a registry that its source removes at now: a service that is deleted and made again, as by
// `kubectl replace --force`, must not fail the requests in between. It returns false for a group that goes at once, or
// joins those that are held.
func (s *state) linger(c *cache, key string, group model.Group, now time.Time) bool {
	if _, held := c.held[key]; held || !group.Empty() || s.patience.Linger <= 0 || len(c.groups[key].Services) == 0 {
		return false
	}
	if c.leaving[key].IsZero() {
		c.leaving[key] = now.Add(s.patience.Linger)
	}
	return true
}

// yield removes the services that linger and have a host or an address that another group has from now on: it must not
// share them with a service that is gone.
func (s *state) yield(groups map[string]model.Group, now time.Time) {
	var taken map[string]bool
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		c := s.sources[name]
		for _, key := range slices.Sorted(maps.Keys(c.leaving)) {
			if taken == nil {
				taken = claimed(maps.Values(groups))
			}
			for claim := range claimed(slices.Values([]model.Group{c.groups[key]})) {
				if taken[claim] {
					s.replace(c, name, key, model.Group{}, now)
					break
				}
			}
		}
	}
}

// leaveAll removes the groups of a source whose time is over at now, unless those that linger are a mass.
func (s *state) leaveAll(name string, c *cache, now time.Time) {
	due := slices.ContainsFunc(slices.Collect(maps.Values(c.leaving)), func(until time.Time) bool { return !now.Before(until) })
	if !due {
		return
	}
	leaving := nothingOf(slices.Collect(maps.Keys(c.leaving)))
	if s.hold(name, c, leaving, s.lost(name, c, leaving), now) {
		clear(c.leaving)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(c.leaving)) {
		if !now.Before(c.leaving[key]) {
			s.replace(c, name, key, model.Group{}, now)
		}
	}
}

// claimed returns the hosts and the addresses of the services in groups.
func claimed(groups iter.Seq[model.Group]) map[string]bool {
	out := map[string]bool{}
	for g := range groups {
		for host := range g.Hosts {
			out[host] = true
		}
		for address := range g.Addresses {
			out[address] = true
		}
	}
	return out
}
