package consul

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// keep is how long a service is kept that Consul lacks after it was away. A server that comes back alone takes its agents for dead, and
// forgets their services, until they have found it again: an agent that cannot register them at once tries again after 15 s.
const keep = 30 * time.Second

// lacking is what the run before told, and what of it the present one lacks.
type lacking struct {
	before map[string]model.Group // by service; empty in the first run, and when the time is over
	until  time.Time              // when that is; zero before Consul has answered
	kept   names
}

// instead returns the group to tell of a service: the one before of a service that Consul has no more.
func (l *lacking) instead(name string, g model.Group) model.Group {
	if before, known := l.before[name]; known && g.Empty() {
		l.kept[name] = true
		return model.Group{Services: before.Services, Faults: []string{"Consul lacks it since it was away: it is kept for " + keep.String()}}
	}
	delete(l.kept, name)
	return g
}

// expire returns the services that are kept no longer.
func (l *lacking) expire(now time.Time) []string {
	if l.until.IsZero() || now.Before(l.until) {
		return nil
	}
	gone := slices.Sorted(maps.Keys(l.kept))
	l.before, l.until, l.kept = nil, time.Time{}, names{}
	return gone
}

// remember returns what the next run is to know: what this one told, and before it had told everything what the one before did.
func (l *lacking) remember(told map[string]model.Group, synced bool) map[string]model.Group {
	out := map[string]model.Group{}
	if !synced {
		maps.Copy(out, l.before)
	}
	for name, g := range told {
		if len(g.Services) > 0 {
			out[name] = g
		}
	}
	return out
}
