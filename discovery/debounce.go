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

// debounce returns when to push; false if nothing changed, or if the first mesh waits for a source. A single change is
// pushed at once.
func (s *state) debounce(d Debounce) (time.Time, bool) {
	if !s.pushed && !s.complete() {
		return time.Time{}, false
	}
	return s.pushes.debounce(d)
}

// pushTimes are the times that pushes are paced by.
type pushTimes struct {
	last        time.Time     // when the last push ended
	build       time.Duration // how long its mesh took to make
	whole       time.Duration // how long the whole push took
	firstChange time.Time     // of the changes that are not pushed yet; zero without any
}

// debounce returns when to push; false if nothing changed.
func (p *pushTimes) debounce(d Debounce) (time.Time, bool) {
	due := p.last.Add(max(d.After, pauseFactor*p.whole))
	if ceiling := p.firstChange.Add(d.Max); due.After(ceiling) {
		due = ceiling
	}
	if due.Before(p.firstChange) {
		due = p.firstChange
	}
	return due, !p.firstChange.IsZero()
}

// markChange records that there is something to push, since now if there was nothing before.
func (p *pushTimes) markChange(now time.Time) {
	if p.firstChange.IsZero() {
		p.firstChange = now
	}
}

// record records when a push began and ended. recordOffer adds the time that the proxies take.
func (p *pushTimes) record(began, ended time.Time) {
	p.last, p.build = ended, ended.Sub(began)
	p.recordOffer(0)
}

// recordOffer records how long it took to offer the last push to every proxy.
func (p *pushTimes) recordOffer(offering time.Duration) { p.whole = p.build + offering }

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
	at, ok := s.debounce(d)
	sooner := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	for _, t := range s.sources {
		if t.pending() {
			sooner(t.deadline)
		}
		sooner(t.held.until)
		for _, until := range t.leaving {
			sooner(until)
		}
		sooner(s.keepDue(t))
	}
	for _, until := range s.lacking.until {
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
			case c.memory.remembered():
				text = "source has not synced in time, discovery goes on with what it had before the start"
			}
			s.journal.log(slog.LevelError, text, "source", name, "timeout", s.patience.Sync,
				"reason", cmp.Or(c.status.Error, "it has named no fault: it has not sent all that it knows"))
			if !s.pushed {
				s.pushes.markChange(now)
			}
		}
		s.leaveAll(name, c, now)
		s.endHold(name, c, now)
		if s.lacking.over(name, now) && s.lacking.forgo(name) {
			s.pushes.markChange(now)
			s.journal.log(slog.LevelError, "proxies that come back get what there is without a source, for the time is over",
				"source", name)
		}
	}
}

// maxKeys is how many keys of a change are named.
const maxKeys = 16

// flush returns the mesh of all changes so far, and the changes. Nothing is left to push after it.
func (s *state) flush(now time.Time) (*model.Mesh, model.Change) {
	keys := make([]string, 0, len(s.changed))
	for key := range s.changed {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	named := slices.Clone(keys[:min(len(keys), maxKeys)])
	change := model.Change{Since: s.pushes.firstChange, Count: len(keys), Keys: named}
	if !s.pushed {
		s.recordUnknown(now)
	}
	s.pushes.firstChange, s.pushed = time.Time{}, true
	s.mesh = s.next()
	s.mesh.Lacks, s.mesh.Forgone = s.lacking.names(), len(s.lacking.forgone) > 0
	clear(s.changed)
	return s.mesh, change
}

// recordUnknown records the sources that the first mesh lacks.
func (s *state) recordUnknown(now time.Time) {
	s.unknown = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		c := s.sources[name]
		if c.feed == nil || c.settled || c.memory.remembered() {
			continue
		}
		until := time.Time{}
		if s.patience.Recall > 0 {
			until = now.Add(s.patience.Recall)
		}
		s.lacking.until[name] = until
		s.journal.log(slog.LevelError, "nothing is known of a source: proxies that come back keep what they have, others are served without it", "source", name,
			"until", until, "sooner", releaseCommand(name))
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

// initialSync is what the first mesh depends on, of one source.
type initialSync struct {
	required bool // it is not optional
	whole    bool // it has synced, and can read all its parts
	settled  bool // it has synced, or has nothing more to send
	late     bool // its deadline has passed

	remembered bool // what it had before the start is known
	faulty     bool // it has failed, or said that it cannot read something
}

// waits reports whether there is no first mesh yet because of the source: half a mesh would remove configuration that
// proxies have.
func (s initialSync) waits() bool {
	switch {
	case s.remembered && (s.faulty || s.settled || s.late):
		return false
	case s.required:
		return !s.whole
	default:
		return !s.settled && !s.late
	}
}

func (c *cache) initialSync() initialSync {
	return initialSync{
		required: c.required, whole: c.whole(), settled: c.settled, late: c.status.Late,
		remembered: c.memory.remembered(), faulty: !c.failed.IsZero() || len(c.faults) > 0,
	}
}

// awaits reports whether there is no mesh yet because of a source.
func (s *state) awaits(c *cache) bool { return !s.pushed && c.feed != nil && c.initialSync().waits() }

// complete reports whether the first mesh can be made: it waits for no source, including those of secrets. If some are
// late, another one must have synced, or be remembered, that holds more than settings of the mesh or names of sources: an empty mesh would
// remove all configuration that proxies have.
func (s *state) complete() bool {
	if s.withoutSecrets {
		return false
	}
	late, synced := false, false
	for _, c := range s.sources {
		switch {
		case s.awaits(c):
			return false
		case c.settled || c.memory.remembered():
			synced = synced || !c.onlySettings() && !c.onlySources()
		case c.status.Late:
			late = true
		}
	}
	return synced || !late && len(s.sources) > 0
}
