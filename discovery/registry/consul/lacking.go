package consul

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// keep is how long a service is kept that Consul lacks after it could not be reached. A server that returns alone
// considers its agents dead, and drops their services, until the agents have reached it again: an agent that cannot
// register them at once tries again after 15 s.
const keep = 30 * time.Second

// lacking holds the groups that the run before sent, and the names of those that the present run lacks.
type lacking struct {
	before map[string]model.Group // by service; empty in the first run, and when the time is over
	until  time.Time              // the end of that time; zero before Consul has answered
	kept   names
}

// instead returns the group to send for a service: if Consul no longer has the service, the group of the run before.
func (l *lacking) instead(name string, g model.Group) model.Group {
	if before, known := l.before[name]; known && g.Empty() {
		l.kept[name] = true
		return model.Group{Services: before.Services, Faults: []string{"Consul lacks it since it was away: it is kept for " + keep.String()}}
	}
	delete(l.kept, name)
	return g
}

// expire returns the services that are no longer kept.
func (l *lacking) expire(now time.Time) []string {
	if l.until.IsZero() || now.Before(l.until) {
		return nil
	}
	gone := slices.Sorted(maps.Keys(l.kept))
	l.before, l.until, l.kept = nil, time.Time{}, names{}
	return gone
}

// remember returns the groups for the next run: those that this run sent and, if it had not synced, also those of the
// run before.
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
