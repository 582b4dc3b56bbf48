package discovery

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// state is what the sources have told, and since when there is something to push. It knows no clock.
type state struct {
	patience Patience
	sources  map[string]*told
	pushed   bool
	last     time.Time                // when the last push ended
	build    time.Duration            // how long its mesh took to make
	took     time.Duration            // how long all of it took
	first    time.Time                // of the changes that are not pushed yet; zero without any
	changed  map[groupKey]model.Group // groups that changed, as they were in the last mesh
	mesh     *model.Mesh              // the last one taken: the next shares with it what did not change
	messages []message                // for the log
}

// groupKey names a group among those of all sources.
type groupKey struct{ source, key string }

func (k groupKey) String() string { return k.source + "/" + k.key }

// message is a line of the log.
type message struct {
	level slog.Level
	text  string
	args  []any
}

func newState(p Patience) *state {
	return &state{patience: p, sources: map[string]*told{}, changed: map[groupKey]model.Group{}}
}

func (s *state) say(level slog.Level, text string, args ...any) {
	s.messages = append(s.messages, message{level, text, args})
}

// said is what happened to a feed: it was started, it sent an update, or it ended.
type said struct {
	feed    *feed
	update  model.Update
	started bool
	ended   bool
	err     error         // of its end; nil when it has nothing more to say
	restart time.Duration // after its end
}

// apply takes what a source said at now.
func (s *state) apply(in said, now time.Time) {
	t := s.sources[in.feed.name]
	if t == nil || t.feed != in.feed {
		return // it was removed, and has not ended yet
	}
	switch {
	case in.started:
		if t.again = map[string]bool{}; t.status.State == SourceFailed {
			t.status.Restarts++
		}
		t.status.State = SourceSyncing
	case in.ended:
		s.end(t, in, now)
	default:
		s.update(t, in.update, now)
	}
	if !s.pushed {
		s.begin(now)
	}
}

func (s *state) end(t *told, in said, now time.Time) {
	if in.err == nil {
		t.status.State, t.settled = SourceEnded, true
		return
	}
	t.status.State, t.status.Error, t.status.ErrorTime = SourceFailed, in.err.Error(), now
	s.say(slog.LevelError, "source failed, what it told before is served", "source", in.feed.name, "err", in.err, "restart", in.restart)
}

func (s *state) update(t *told, u model.Update, now time.Time) {
	name := t.feed.name
	for key, group := range u.Groups {
		if len(group.Faults) > 0 && !slices.Equal(group.Faults, t.faults[key]) {
			s.say(slog.LevelWarn, "malformed record skipped", "source", name, "record", key, "reasons", group.Faults)
		}
	}
	t.take(u, func(key string, before model.Group) { s.note(t, groupKey{name, key}, before, now) })
	if !u.Synced {
		return
	}
	if t.status.Late {
		s.say(slog.LevelInfo, "source synced after its deadline", "source", name)
	}
	t.status.State, t.status.Late, t.settled = SourceSynced, false, true
	s.leave(name, t, t.missed(), now)
}

// note remembers a group as it was in the last mesh.
func (s *state) note(t *told, key groupKey, before model.Group, now time.Time) {
	if _, known := s.changed[key]; !known {
		s.changed[key] = before
	}
	t.status.Changed = now
	s.begin(now)
}

func (s *state) begin(now time.Time) {
	if s.first.IsZero() {
		s.first = now
	}
}

// reconcile makes the sources those of a roster at now. It returns which feeds to start, and which to stop.
func (s *state) reconcile(roster map[string]*feed, now time.Time) (start, stop []*feed) {
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		t := s.sources[name]
		if t.feed == nil || roster[name] == t.feed {
			continue
		}
		stop = append(stop, t.feed)
		t.feed, t.status = nil, SourceStatus{Name: name, State: SourceRemoved, Objects: t.status.Objects, Changed: t.status.Changed}
		t.faults = map[string][]string{}
		if roster[name] == nil {
			s.say(slog.LevelInfo, "source removed", "source", name, "objects", t.status.Objects)
			s.leave(name, t, slices.Sorted(maps.Keys(t.groups)), now)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(roster)) {
		t := s.sources[name]
		if t == nil {
			t = newTold()
			s.sources[name] = t
		}
		if t.feed != nil {
			continue
		}
		start = append(start, roster[name])
		t.feed, t.settled, t.deadline = roster[name], false, time.Time{}
		if s.patience.Sync > 0 {
			t.deadline = now.Add(s.patience.Sync)
		}
		t.status.Name, t.status.State = name, SourceSyncing
		clear(t.held)
		t.until = time.Time{}
	}
	return start, stop
}

// groups yields every group, by source and key: of two services that claim one host with equal right the same one wins
// in every replica.
func (s *state) groups() iter.Seq[model.Group] {
	return func(yield func(model.Group) bool) {
		for _, name := range slices.Sorted(maps.Keys(s.sources)) {
			groups := s.sources[name].groups
			for _, key := range slices.Sorted(maps.Keys(groups)) {
				if !yield(groups[key]) {
					return
				}
			}
		}
	}
}

// leave takes groups away that a source has no longer. Where those have more than half of all hosts, they are held.
func (s *state) leave(name string, t *told, keys []string, now time.Time) {
	if lost := s.lost(name, keys); lost != "" {
		for _, key := range keys {
			t.held[key] = true
		}
		if t.until.IsZero() {
			t.until = now.Add(s.patience.Wipe)
		}
		s.say(slog.LevelError, "groups of a source are gone at once and held, for it may be an accident", "source", name, "lost", lost,
			"groups", len(keys), "until", t.until)
		return
	}
	for _, key := range keys {
		s.note(t, groupKey{name, key}, t.groups[key], now)
		t.drop(key)
	}
	if t.feed == nil {
		delete(s.sources, name)
	}
}

// fewest is how many hosts must go at once for that to be held.
const fewest = 3

// lost says which part of all hosts goes with the groups, where it is more than half.
func (s *state) lost(name string, keys []string) string {
	if s.patience.Wipe <= 0 || len(keys) == 0 {
		return ""
	}
	going := make(map[groupKey]bool, len(keys))
	for _, key := range keys {
		going[groupKey{name, key}] = true
	}
	stays := map[string]bool{}
	for source, t := range s.sources {
		for key, group := range t.groups {
			gone := going[groupKey{source, key}] || t.held[key]
			for host := range group.Hosts {
				stays[host] = stays[host] || !gone
			}
		}
	}
	lost := 0
	for _, stay := range stays {
		if !stay {
			lost++
		}
	}
	if lost < fewest || 2*lost <= len(stays) {
		return ""
	}
	return fmt.Sprintf("%d of %d hosts", lost, len(stays))
}
