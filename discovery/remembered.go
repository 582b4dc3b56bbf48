package discovery

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
			s.log(slog.LevelWarn, "groups of before the start are not used, for there is no such source", "source", name, "groups", len(from.Groups))
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
				c.old[key] = true
			}
		}
		s.sources[name] = c
		s.log(slog.LevelInfo, "groups of before the start are served until their source is whole", "source", name, "groups", len(c.old), "at", from.At,
			"age", c.age.Round(time.Second))
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
	if c.remembered() {
		c.memory = memory{}
		s.log(slog.LevelInfo, "source is whole, nothing of before the start is served of it any more", "source", name)
	}
	for _, other := range slices.Sorted(maps.Keys(s.sources)) {
		if o := s.sources[other]; o.feed == nil && o.remembered() && s.adderOf(other) == name {
			o.remove(other)
			s.log(slog.LevelInfo, "source of before the start is no longer there", "source", other, "objects", o.status.Objects)
			s.remove(other, o, nothingOf(o.ordered()), now)
		}
	}
}
