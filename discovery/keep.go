package discovery

import (
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
		if due.IsZero() || now.Before(due) && (!final || c.changed.IsZero()) {
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
