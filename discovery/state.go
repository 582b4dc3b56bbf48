package discovery

import (
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// state holds the groups of all sources, and the time since which there is something to push. It reads no clock.
type state struct {
	patience Patience
	settings model.Settings // that never change
	sources  map[string]*cache
	pushed   bool
	pushes   pushTimes
	changed  map[groupKey]model.Group // groups that changed, as they were in the last mesh
	mesh     *model.Mesh              // the last one pushed: the next one shares unchanged parts with it
	journal  journal

	// unknown are the sources that were late when the first mesh was made. Until each has synced once, or is removed, the
	// guests of other sources are not served: their hosts may be those of an unknown source.
	unknown map[string]bool

	lacking lacking

	required func(source string) bool // nil for none

	adder func(source string) string // see Server.Adder; nil for none
	keeps bool                       // there is a Keeper

	lastGood LastGood // nil for none

	gone []string // sources that were removed, with their groups: see takeGone

	withoutSecrets bool // the first mesh waits until the sources of secrets have synced or are late
}

// groupKey identifies a group among those of all sources.
type groupKey struct{ source, key string }

func (k groupKey) String() string { return k.source + "/" + k.key }

func newState(p Patience) *state {
	return &state{
		patience: p, sources: map[string]*cache{}, changed: map[groupKey]model.Group{},
		lacking: lacking{map[string]time.Time{}, map[string]bool{}},
	}
}

// apply applies an event that came at now.
func (s *state) apply(in sourceEvent, now time.Time) {
	c := s.sources[in.feed.name]
	if c == nil || c.feed != in.feed {
		return // it was removed, and has not ended yet
	}
	switch {
	case in.started:
		c.started()
	case in.ended:
		level := c.ended(in.err, now)
		switch {
		case in.err == nil && c.memory.remembered() && c.whole():
			s.becomeWhole(in.update, in.feed.name, c, now)
		case in.err == nil:
			s.meet(in.feed.name, now)
		default:
			s.journal.log(level, "source failed, its last groups are served",
				"source", in.feed.name, "err", in.err, "restart", in.restart)
		}
	default:
		s.update(c, in.update, now)
	}
	if !s.pushed {
		s.pushes.markChange(now)
	}
}

func (s *state) update(c *cache, u model.Update, now time.Time) {
	name, going := c.feed.name, map[string]model.Group{}
	for key, group := range u.Groups {
		s.restore(c, key, group, now)
		shut := group.Closed()
		if shut && c.good(key) {
			group = model.Group{Faults: append(slices.Clip(group.Faults), "the last good form stays")}
		}
		if c.read(key, group.Faults) && len(group.Faults) > 0 {
			text := "malformed record skipped"
			if shut && !group.Malformed() {
				text = "malformed policy, which has no earlier form, keeps out whom it could have named"
			}
			if group.Fetched {
				text = "what a policy names was not fetched, what was fetched last stays"
			}
			if group.Unread {
				text = "a part of a source cannot be read, what it had of it is not removed"
			}
			s.journal.log(slog.LevelWarn, text, "source", name, "record", key, "reasons", group.Faults)
		}
		c.part(key, group.Unread)
		if group.Waits && c.memory.old[key] {
			continue // what is remembered has all that it names
		}
		switch {
		case (s.pushed || c.memory.remembered() || u.Emptied) && c.goes(key, group):
			if !s.linger(c, key, group, now) {
				going[key] = group
			}
		default:
			s.replace(c, name, key, group, now)
		}
	}
	s.removeOf(u, name, c, going, now)
	for _, key := range u.Stands {
		c.stands(key)
	}
	s.yield(u.Groups, now)
	if u.Synced {
		switch late, failed := c.synced(now); {
		case late:
			s.journal.log(slog.LevelInfo, "source synced after its deadline", "source", name)
		case failed > 0:
			s.journal.log(slog.LevelInfo, "source synced again", "source", name, "failed", failed)
		}
	}
	if c.status.State == SourceSynced {
		c.kept.firstKeep(now)
		if c.whole() {
			s.becomeWhole(u, name, c, now)
		}
	}
}

// becomeWhole removes what a source has not sent again, now that all it has is known.
func (s *state) becomeWhole(u model.Update, name string, c *cache, now time.Time) {
	gone := slices.DeleteFunc(c.deleted(), func(key string) bool { return c.stranded[key] })
	s.removeOf(u, name, c, nothingOf(gone), now)
	c.broken.known = true
	s.meet(name, now)
	s.renewed(name, c, now)
}

// meet records that the content of a source is known, or that the source was removed.
func (s *state) meet(name string, now time.Time) {
	if s.lacking.forgone[name] {
		delete(s.lacking.forgone, name)
		s.pushes.markChange(now)
	}
	if s.lacking.end(name) {
		s.pushes.markChange(now)
		s.journal.log(slog.LevelInfo, "source is no longer lacking, proxies that came back get what there is",
			"source", name)
	}
	if !s.unknown[name] {
		return
	}
	if delete(s.unknown, name); len(s.unknown) == 0 {
		s.journal.log(slog.LevelInfo, "all sources have synced, hosts of registries outside of their own suffix are served")
		s.pushes.markChange(now)
	}
}

// markGroup marks a group as changed, and keeps the group as it was in the last mesh.
func (s *state) markGroup(c *cache, key groupKey, before model.Group, now time.Time) {
	if _, known := s.changed[key]; !known {
		s.changed[key] = before
	}
	c.status.Changed = now
	c.kept.dirty(now)
	s.pushes.markChange(now)
}

// reconcile sets the sources to those of a roster at now. It returns the feeds to start, and those to stop.
func (s *state) reconcile(roster map[string]*feed, now time.Time) (start, stop []*feed) {
	start, stop = compare(s.sources, roster)
	for _, f := range stop {
		if roster[f.name] != nil {
			continue // it is replaced
		}
		c := s.sources[f.name]
		c.remove(f.name)
		s.journal.log(slog.LevelInfo, "source removed", "source", f.name, "objects", c.status.Objects)
		s.remove(f.name, c, nothingOf(c.ordered()), now)
		s.meet(f.name, now)
	}
	for _, f := range start {
		c := s.sources[f.name]
		if c == nil {
			c = newCache()
			s.sources[f.name] = c
		}
		c.begin(f, s.patience.deadline(now))
		c.required = s.required != nil && s.required(f.name)
		c.forget()
		clear(c.leaving)
	}
	return start, stop
}

// report returns the status of a source.
func (s *state) report(name string) SourceStatus {
	c := s.sources[name]
	out := c.report()
	out.Awaited = s.awaits(c)
	out.LackingUntil, out.Lacking = s.lacking.until[name]
	if out.Withheld = s.withheld(c); out.Withheld > 0 {
		out.Unknown = slices.Sorted(maps.Keys(s.unknown))
	}
	return out
}

// groups yields every group, ordered by source and key: of two services that claim one host with equal right the same one
// wins in every replica.
func (s *state) groups() iter.Seq[model.Group] {
	return func(yield func(model.Group) bool) {
		for _, name := range slices.Sorted(maps.Keys(s.sources)) {
			c := s.sources[name]
			for _, key := range c.ordered() {
				group := c.groups[key]
				if len(s.unknown) > 0 {
					group = group.WithoutGuests()
				}
				if !yield(group) {
					return
				}
			}
		}
	}
}

// lacking are the sources that the first mesh lacked, whatever they may hold: proxies that come back may have what
// these have. They keep it until the source is whole, or removed, or released, or until the time is over.
type lacking struct {
	until map[string]time.Time // zero for never

	// forgone are those of them for which proxies no longer wait, though still nothing is known of them.
	forgone map[string]bool
}

// end records that a source is no longer lacking, and reports whether it was.
func (l *lacking) end(name string) bool {
	_, lacked := l.until[name]
	delete(l.until, name)
	return lacked
}

// forgo ends the wait for a source of which still nothing is known, and reports whether there was one.
func (l *lacking) forgo(name string) bool {
	lacked := l.end(name)
	if lacked {
		l.forgone[name] = true
	}
	return lacked
}

// over reports whether a source lacks for too long.
func (l *lacking) over(name string, now time.Time) bool {
	until := l.until[name]
	return !until.IsZero() && !now.Before(until)
}

// names returns the names of the sources that are lacking; nil for none.
func (l *lacking) names() []string { return slices.Sorted(maps.Keys(l.until)) }
