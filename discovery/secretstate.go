package discovery

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// secretState holds the groups of all sources of secrets. It reads no clock.
type secretState struct {
	timeout  time.Duration // for a source to sync, since it was added; 0 for ever
	sources  map[string]*secretCache
	shadowed map[string][]string // see secret.Unite
	messages []message           // for the log
}

// secretCache holds the last groups of one source of secrets, and the state of the source itself.
type secretCache struct {
	feed     *secretFeed
	groups   map[string]secret.Group
	faults   map[string][]string // of records that are malformed, by key
	resent   map[string]bool     // keys that it has sent since it was started, until it has synced; nil after that
	deadline time.Time           // the first mesh waits for it until then; zero for ever
	settled  bool                // it has synced, or ended, at least once
	status   SourceStatus
}

// secretEvent is an event of a feed: it was started, it sent an update, or it ended.
type secretEvent struct {
	feed    *secretFeed
	update  secret.Update
	started bool
	ended   bool
	err     error         // of its end; nil when it has nothing more to send
	restart time.Duration // after its end
}

func newSecretState(timeout time.Duration) *secretState {
	return &secretState{timeout: timeout, sources: map[string]*secretCache{}}
}

func (s *secretState) log(level slog.Level, text string, args ...any) {
	s.messages = append(s.messages, message{level, text, args})
}

// reconcile sets the sources to those of a roster at now. It returns the feeds to start and those to stop, and whether
// the secrets have changed.
func (s *secretState) reconcile(roster map[string]*secretFeed, now time.Time) (start, stop []*secretFeed, changed bool) {
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		c := s.sources[name]
		if roster[name] == c.feed {
			continue
		}
		if stop = append(stop, c.feed); roster[name] == nil {
			s.log(slog.LevelInfo, "source of secrets removed", "source", name, "secrets", c.count())
			changed = changed || len(c.groups) > 0
			delete(s.sources, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(roster)) {
		c := s.sources[name]
		if c == nil {
			c = &secretCache{groups: map[string]secret.Group{}}
			s.sources[name] = c
		}
		if c.feed == roster[name] {
			continue
		}
		start = append(start, roster[name])
		c.feed, c.settled, c.deadline, c.faults = roster[name], false, time.Time{}, map[string][]string{}
		c.status = SourceStatus{Name: name, State: SourceSyncing, Changed: c.status.Changed}
		if s.timeout > 0 {
			c.deadline = now.Add(s.timeout)
		}
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
		if c.resent = map[string]bool{}; c.status.State == SourceFailed {
			c.status.Restarts++
		}
		c.status.State = SourceSyncing
	case in.ended && in.err == nil:
		c.status.State, c.settled = SourceEnded, true
	case in.ended:
		c.status.State, c.status.Error, c.status.ErrorTime = SourceFailed, in.err.Error(), now
		s.log(slog.LevelError, "source of secrets failed, its last secrets are served", "source", in.feed.name, "err", in.err, "restart", in.restart)
	default:
		changed = s.update(c, in.update)
	}
	if changed {
		c.status.Changed = now
	}
	return changed
}

func (s *secretState) update(c *secretCache, u secret.Update) (changed bool) {
	for _, key := range slices.Sorted(maps.Keys(u.Groups)) {
		group := u.Groups[key]
		if c.resent != nil {
			c.resent[key] = true
		}
		s.setFaults(c, key, group.Faults)
		before, had := c.groups[key]
		switch {
		case group.Malformed(), had && len(group.Secrets) > 0 && group.Same(before):
		case len(group.Secrets) > 0:
			c.groups[key], changed = group, true
		case had:
			delete(c.groups, key)
			changed = true
		}
	}
	if !u.Synced {
		return changed
	}
	if c.status.Late {
		s.log(slog.LevelInfo, "source of secrets synced after its deadline", "source", c.status.Name)
	}
	c.status.State, c.status.Late, c.settled = SourceSynced, false, true
	for key := range c.groups {
		if c.resent != nil && !c.resent[key] {
			delete(c.groups, key)
			changed = true
		}
	}
	for key := range c.faults {
		if c.resent != nil && !c.resent[key] {
			delete(c.faults, key)
		}
	}
	c.resent = nil
	return changed
}

// setFaults replaces the faults of a record.
func (s *secretState) setFaults(c *secretCache, key string, faults []string) {
	before := c.faults[key]
	if len(faults) == 0 {
		delete(c.faults, key)
		if len(before) > 0 {
			s.log(slog.LevelInfo, "secret is read again", "source", c.status.Name, "record", key)
		}
		return
	}
	if c.faults[key] = faults; !slices.Equal(before, faults) {
		s.log(slog.LevelError, "secret not read, the last one stays", "source", c.status.Name, "record", key, "reasons", faults)
	}
}

// pending reports whether the source has neither synced nor passed its deadline.
func (c *secretCache) pending() bool { return !c.settled && !c.status.Late }

// expire records the deadlines that have passed at now, and returns when the next one passes; zero for never.
func (s *secretState) expire(now time.Time) (next time.Time) {
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		c := s.sources[name]
		switch {
		case !c.pending() || c.deadline.IsZero():
		case now.Before(c.deadline):
			if next.IsZero() || c.deadline.Before(next) {
				next = c.deadline
			}
		default:
			c.status.Late = true
			s.log(slog.LevelError, "source of secrets has not synced in time, discovery goes on without it", "source", name, "timeout", s.timeout,
				"reason", c.status.Error)
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

func (c *secretCache) count() (n int) {
	for _, group := range c.groups {
		n += len(group.Secrets)
	}
	return n
}

// report returns the status of each source, ordered by name.
func (s *secretState) report() []SourceStatus {
	out := []SourceStatus{}
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		c := s.sources[name]
		status := c.status
		status.Objects, status.Shadowed = c.count(), s.shadowed[name]
		for _, key := range slices.Sorted(maps.Keys(c.faults)) {
			for _, fault := range c.faults[key] {
				status.Malformed = append(status.Malformed, fmt.Sprintf("%s: %s", key, fault))
			}
		}
		out = append(out, status)
	}
	return out
}
