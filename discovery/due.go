package discovery

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// pauseFactor is the length of the pause after a push, in lengths of that push: pushes take at most a fifth of the time,
// unless Debounce.Max ends the pause earlier.
const pauseFactor = 4

// due returns when to push; false if nothing changed, or if the first mesh waits for a source. A single change is
// pushed at once.
func (s *state) due(d Debounce) (time.Time, bool) {
	if !s.pushed && !s.complete() {
		return time.Time{}, false
	}
	due := s.lastPush.Add(max(d.After, pauseFactor*s.pushTime))
	if ceiling := s.firstChange.Add(d.Max); due.After(ceiling) {
		due = ceiling
	}
	if due.Before(s.firstChange) {
		due = s.firstChange
	}
	return due, !s.firstChange.IsZero()
}

func (c *cache) onlySources() bool {
	if c.feed == nil {
		return false
	}
	_, only := c.feed.source.(OnlySources)
	return only
}

func (c *cache) onlySettings() bool {
	for _, group := range c.groups {
		if !group.Settings() {
			return false
		}
	}
	return len(c.groups) > 0
}

// wake returns when the loop must act if no event comes before; false for never.
func (s *state) wake(d Debounce) (time.Time, bool) {
	at, ok := s.due(d)
	sooner := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	for _, t := range s.sources {
		if t.pending() {
			sooner(t.deadline)
		}
		sooner(t.heldUntil)
		for _, until := range t.leaving {
			sooner(until)
		}
		sooner(s.keepDue(t))
	}
	for _, until := range s.lacking {
		sooner(until)
	}
	return at, ok
}

// expire records the deadlines that have passed at now, and removes the groups that were held until now.
func (s *state) expire(now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		c := s.sources[name]
		if c.expire(now) {
			text := "source has not synced in time, discovery goes on without it"
			switch {
			case s.awaits(c):
				text = "source has not synced in time, discovery is not ready without it"
			case c.remembered():
				text = "source has not synced in time, discovery goes on with what it had before the start"
			}
			s.log(slog.LevelError, text, "source", name, "timeout", s.patience.Sync,
				"reason", cmp.Or(c.status.Error, "it has named no fault: it has not sent all that it knows"))
			if !s.pushed {
				s.markChange(now)
			}
		}
		s.leaveAll(name, c, now)
		s.endHold(name, c, now)
		s.endLack(name, now)
	}
}

// recordPush records when a push began and ended. recordPushTime adds the time that the proxies take.
func (s *state) recordPush(began, ended time.Time) {
	s.lastPush, s.buildTime = ended, ended.Sub(began)
	s.recordPushTime(0)
}

// recordPushTime records how long it took to offer the last push to every proxy.
func (s *state) recordPushTime(offering time.Duration) { s.pushTime = s.buildTime + offering }

// maxKeys is how many keys of a change are named.
const maxKeys = 16

// flush returns the mesh of all changes so far, and the changes. Nothing is left to push after it.
func (s *state) flush(now time.Time) (*model.Mesh, model.Change) {
	keys := make([]string, 0, len(s.changed))
	for key := range s.changed {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	change := model.Change{Since: s.firstChange, Count: len(keys), Keys: slices.Clone(keys[:min(len(keys), maxKeys)])}
	if !s.pushed {
		s.recordUnknown(now)
	}
	s.firstChange, s.pushed = time.Time{}, true
	s.mesh = s.next()
	s.mesh.Lacks, s.mesh.Forgone = s.lacks(), len(s.forgone) > 0
	clear(s.changed)
	return s.mesh, change
}

// recordUnknown records the sources that the first mesh lacks.
func (s *state) recordUnknown(now time.Time) {
	s.unknown = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		c := s.sources[name]
		if c.feed == nil || c.settled || c.remembered() {
			continue
		}
		s.lack(name, now)
		if _, open := c.feed.source.(OpenRegistry); !open {
			s.unknown[name] = true
		}
	}
}

// withheld returns how many hosts of a source wait for other sources.
func (s *state) withheld(c *cache) (n int) {
	if len(s.unknown) == 0 {
		return 0
	}
	for _, group := range c.groups {
		n += group.Guests()
	}
	return n
}

// next makes the mesh of all groups. If only endpoints and routes changed, the cost is in proportion to the change.
func (s *state) next() *model.Mesh {
	if s.mesh == nil {
		return model.NewOf(s.settings, s.groups())
	}
	var services []*model.Service
	var objects []*model.Object
	var workloads []model.WorkloadChange
	for key, before := range s.changed {
		var now model.Group
		if c := s.sources[key.source]; c != nil {
			now = c.groups[key.key]
		}
		if !now.Covers(before) || !before.Covers(now) {
			return s.mesh.Next(s.groups())
		}
		for _, service := range now.Services {
			if len(s.unknown) > 0 && service.Right == model.RightGuest {
				continue
			}
			if !slices.Contains(before.Services, service) { // else only its object has another position now
				services = append(services, service)
			}
		}
		objects = append(objects, now.Objects...)
		workloads = append(workloads, model.WorkloadChanges(before, now)...)
	}
	if next, ok := s.mesh.With(services, objects, workloads...); ok {
		return next
	}
	return s.mesh.Next(s.groups())
}
