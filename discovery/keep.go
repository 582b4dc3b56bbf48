package discovery

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Keeper keeps what is served of sources for the next start. Its methods return at once.
type Keeper interface {
	// Keep replaces what is kept of a source by what it has at a time. The groups do not change.
	Keep(source string, groups map[string]model.Group, at time.Time)
	// Forget drops what is kept of a source that was removed.
	Forget(source string)
}

// A source is kept keepAfter after a change, and again at keepAgain, so that the time says how long it was away.
const (
	keepAfter = 5 * time.Second
	keepAgain = 10 * time.Minute
)

// kept is when a source was kept.
type kept struct {
	last    time.Time // zero for never by this process
	changed time.Time // when the first change came that is not kept yet; zero for none
}

// dirty records a change.
func (k *kept) dirty(now time.Time) {
	if k.changed.IsZero() {
		k.changed = now
	}
}

// firstKeep records that a source has synced: what was kept of it by an earlier process is replaced.
func (k *kept) firstKeep(now time.Time) {
	if k.last.IsZero() {
		k.dirty(now)
	}
}

// due returns when to keep a source; zero for never.
func (k *kept) due() time.Time {
	var again time.Time
	if !k.last.IsZero() {
		again = k.last.Add(keepAgain)
	}
	if k.changed.IsZero() {
		return again
	}
	if soon := k.changed.Add(keepAfter); again.IsZero() || soon.Before(again) {
		return soon
	}
	return again
}

// keepDue returns when to keep a source; zero for not. One that has not synced is not kept: what an earlier process has kept is
// better.
func (s *state) keepDue(c *cache) time.Time {
	if !s.keeps || !s.pushed || c.feed == nil || c.status.State != SourceSynced && c.status.State != SourceEnded {
		return time.Time{}
	}
	return c.kept.due()
}

// toKeep returns the names of the sources that are to be kept at now, and records that they are: with final all that have a
// change.
func (s *state) toKeep(now time.Time, final bool) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		c := s.sources[name]
		due := s.keepDue(c)
		if due.IsZero() || now.Before(due) && (!final || c.kept.changed.IsZero()) {
			continue
		}
		c.kept = kept{last: now}
		names = append(names, name)
	}
	return names
}

// takeGone returns the sources that were removed since the last call, and are not there again.
func (s *state) takeGone() (names []string) {
	for _, name := range s.gone {
		if s.sources[name] == nil {
			names = append(names, name)
		}
	}
	s.gone = nil
	return names
}

// Remembered are the groups of a source that an earlier run of discovery has kept.
type Remembered struct {
	Groups map[string]model.Group
	At     time.Time // when the source had them
}

// memory is what a source had before the start. Its zero value is that of a source that is not remembered, or is whole.
type memory struct {
	at  time.Time       // when it had that
	age time.Duration   // at the start; negative if the clock was set back
	old map[string]bool // keys of groups that it has not sent again
}

func (m *memory) remembered() bool { return !m.at.IsZero() }

// resend records that a source has sent a group.
func (m *memory) resend(key string, group model.Group) {
	if !group.Malformed() {
		delete(m.old, key)
	}
}

// recall begins with the groups of an earlier run. Those of sources that are neither in the roster nor may be added by one
// of it are not used.
func (s *state) recall(all map[string]Remembered, roster map[string]*feed, now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		from := all[name]
		if roster[name] == nil && roster[s.adderOf(name)] == nil {
			s.journal.log(slog.LevelWarn, "groups of before the start are not used, for there is no such source",
				"source", name, "groups", len(from.Groups))
			continue
		}
		c := newCache()
		c.status = SourceStatus{Name: name, State: SourceSyncing}
		c.memory = memory{from.At, now.Sub(from.At), map[string]bool{}}
		for key, group := range from.Groups {
			stranded := group.Stranded && s.patience.Wipe > 0
			group.Stranded = false
			if _, changed := c.take(key, group); stranded {
				c.stranded[key] = true
			} else if changed {
				c.memory.old[key] = true
			}
		}
		s.sources[name] = c
		s.journal.log(slog.LevelInfo, "groups of before the start are served until their source is whole", "source", name, "groups", len(c.memory.old), "at", from.At,
			"age", c.memory.age.Round(time.Second))
	}
}

func (s *state) adderOf(name string) string {
	if s.adder == nil {
		return ""
	}
	return s.adder(name)
}

// renewed records that a source is whole: nothing of before the start is served of it any more, but what is held. A source
// of before the start that it has not added is removed.
func (s *state) renewed(name string, c *cache, now time.Time) {
	if c.memory.remembered() {
		c.memory = memory{}
		s.journal.log(slog.LevelInfo, "source is whole, nothing of before the start is served of it any more",
			"source", name)
	}
	for _, other := range slices.Sorted(maps.Keys(s.sources)) {
		if o := s.sources[other]; o.feed == nil && o.memory.remembered() && s.adderOf(other) == name {
			o.remove(other)
			s.journal.log(slog.LevelInfo, "source of before the start is no longer there",
				"source", other, "objects", o.status.Objects)
			s.remove(other, o, nothingOf(o.ordered()), now)
		}
	}
}

// LastGood keeps the last good forms of records that are broken now, for other replicas and later runs. Its methods return at once.
type LastGood interface {
	// Form returns the last good form of a record of a source; false if none is kept.
	Form(source, key string) (model.Group, bool)
	// Keep replaces what is kept of a source by the forms of all its broken records. They do not change.
	Keep(source string, forms map[string]model.Group)
}

// broken are the records of a source that are broken, and served in their last good form.
type broken struct {
	keys    map[string]bool
	changed bool // since they were handed over
	known   bool // all that the source had at the start has come: what is kept is of no record that breaks later
}

// restore takes the last good form of a broken record of which this run has none.
func (s *state) restore(c *cache, key string, group model.Group, now time.Time) {
	if s.lastGood == nil || c.broken.known || group.Unread || c.good(key) || !group.Malformed() && !group.Closed() {
		return
	}
	if form, kept := s.lastGood.Form(c.feed.name, key); kept {
		s.replace(c, c.feed.name, key, form, now)
		s.journal.log(slog.LevelInfo, "a broken record is served in its last good form, which was kept before this start",
			"source", c.feed.name, "record", key)
	}
}

// breaks records whether a record that was sent is broken, and served in its last good form.
func (c *cache) breaks(key string, group model.Group) {
	is := group.Malformed() && !group.Unread && c.good(key)
	if c.broken.keys[key] == is {
		return
	}
	if c.broken.changed = true; is {
		c.broken.keys[key] = true
	} else {
		delete(c.broken.keys, key)
	}
}

// forms returns, by source, the last good forms of broken records where these have changed since the last call, of sources that are whole:
// others may have records that nobody has seen yet.
func (s *state) forms() map[string]map[string]model.Group {
	out := map[string]map[string]model.Group{}
	for name, c := range s.sources {
		if !c.broken.changed || c.status.State != SourceSynced || !c.whole() {
			continue
		}
		c.broken.changed = false
		out[name] = map[string]model.Group{}
		for key := range c.broken.keys {
			if c.good(key) && len(c.faults[key]) > 0 { // it is not gone
				out[name][key] = c.groups[key]
			}
		}
	}
	return out
}
