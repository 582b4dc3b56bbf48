package discovery

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// secretState holds the groups of all sources of secrets. It reads no clock.
type secretState struct {
	patience Patience
	sources  map[string]*secretCache
	shadowed map[string][]string // see secret.Unite
	journal
}

// secretCache holds the last groups of one source of secrets, and the state of the source itself.
type secretCache = cacheOf[secret.Update, secret.Group]

func newSecretState(p Patience) *secretState {
	return &secretState{patience: p, sources: map[string]*secretCache{}}
}

// reconcile sets the sources to those of a roster at now. It returns the feeds to start and those to stop, and whether
// the secrets have changed.
func (s *secretState) reconcile(roster map[string]*secretFeed, now time.Time) (start, stop []*secretFeed, changed bool) {
	start, stop = compare(s.sources, roster)
	for _, f := range stop {
		if roster[f.name] != nil {
			continue // it is replaced
		}
		c := s.sources[f.name]
		s.log(slog.LevelInfo, "source of secrets removed", "source", f.name, "secrets", c.status.Objects)
		changed = changed || len(c.groups) > 0
		delete(s.sources, f.name)
	}
	for _, f := range start {
		c := s.sources[f.name]
		if c == nil {
			c = &secretCache{groups: map[string]secret.Group{}}
			s.sources[f.name] = c
		}
		c.begin(f, s.patience.deadline(now))
	}
	return start, stop, changed
}

// apply applies an event that came at now, and reports whether the secrets have changed.
func (s *secretState) apply(in secretEvent, now time.Time) (changed bool) {
	c := s.sources[in.feed.name]
	if c == nil || c.feed != in.feed {
		return false // it was removed, and has not ended yet
	}
	switch {
	case in.started:
		c.started()
	case in.ended:
		if level := c.ended(in.err, now); in.err != nil {
			s.log(level, "source of secrets failed, its last secrets are served", "source", in.feed.name, "err", in.err, "restart", in.restart)
		}
	default:
		changed = s.update(c, in.update, now)
	}
	if changed {
		c.status.Changed = now
	}
	return changed
}

func (s *secretState) update(c *secretCache, u secret.Update, now time.Time) (changed bool) {
	for _, key := range slices.Sorted(maps.Keys(u.Groups)) {
		group := u.Groups[key]
		switch other := c.read(key, group.Faults); {
		case other && len(group.Faults) == 0:
			s.log(slog.LevelInfo, "secret is read again", "source", c.feed.name, "record", key)
		case other:
			s.log(slog.LevelError, "secret not read, the last one stays", "source", c.feed.name, "record", key, "reasons", group.Faults)
		}
		_, differs := c.take(key, group)
		changed = changed || differs
	}
	if !u.Synced {
		return changed
	}
	switch late, failed := c.synced(now); {
	case late:
		s.log(slog.LevelInfo, "source of secrets synced after its deadline", "source", c.feed.name)
	case failed > 0:
		s.log(slog.LevelInfo, "source of secrets synced again", "source", c.feed.name, "failed", failed)
	}
	for _, key := range c.deleted() {
		c.drop(key)
		changed = true
	}
	return changed
}

// expire records the deadlines that have passed at now, and returns when the next one passes; zero for never.
func (s *secretState) expire(now time.Time) (next time.Time) {
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		c := s.sources[name]
		if c.expire(now) {
			s.log(slog.LevelError, "source of secrets has not synced in time, discovery goes on without it", "source", name, "timeout", s.patience.Sync,
				"reason", c.status.Error)
		}
		if c.pending() && !c.deadline.IsZero() && (next.IsZero() || c.deadline.Before(next)) {
			next = c.deadline
		}
	}
	return next
}

// complete reports whether the first mesh waits for no source.
func (s *secretState) complete() bool {
	for _, c := range s.sources {
		if c.pending() {
			return false
		}
	}
	return true
}

// unite makes the set of all sources, and logs the names that two of them have.
func (s *secretState) unite() secret.Set {
	groups := map[string]map[string]secret.Group{}
	for name, c := range s.sources {
		groups[name] = c.groups
	}
	all, shadowed := secret.Unite(groups)
	for _, source := range slices.Sorted(maps.Keys(shadowed)) {
		for _, reason := range shadowed[source] {
			if !slices.Contains(s.shadowed[source], reason) {
				s.log(slog.LevelWarn, "two sources have one secret", "source", source, "reason", reason)
			}
		}
	}
	s.shadowed = shadowed
	return all
}

// report returns the status of each source, ordered by name.
func (s *secretState) report() []SourceStatus {
	out := []SourceStatus{}
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		status := s.sources[name].report()
		status.Shadowed = s.shadowed[name]
		out = append(out, status)
	}
	return out
}
