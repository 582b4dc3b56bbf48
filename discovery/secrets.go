package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/secret"
)

// Vault takes each new set of secrets. It is used by one goroutine at a time.
type Vault interface {
	SetSecrets(secret.Set)
}

// secretEvent is what happened to a source of secrets: it was started, it sent an update, or it ended.
type secretEvent struct {
	source  string
	update  secret.Update
	started bool
	ended   bool
	err     error         // of its end; nil when it has nothing more to say
	restart time.Duration // after its end
}

// safe holds what the sources of secrets have told. It knows no clock.
type safe struct {
	sources  map[string]*secretCache
	losers   map[string][]string // see secret.Unite
	messages []message           // for the log
}

// secretCache is what one source has told, and how it is doing.
type secretCache struct {
	groups  map[string]secret.Group
	faults  map[string][]string // of records that are malformed, by key
	again   map[string]bool     // told since it was started, until it has synced
	settled bool                // it has synced, or ended, at least once
	status  SourceStatus
}

func newSafe(names []string) *safe {
	s := &safe{sources: map[string]*secretCache{}}
	for _, name := range names {
		s.sources[name] = &secretCache{
			groups: map[string]secret.Group{}, faults: map[string][]string{}, status: SourceStatus{Name: name, State: SourceSyncing},
		}
	}
	return s
}

func (s *safe) say(level slog.Level, text string, args ...any) {
	s.messages = append(s.messages, message{level, text, args})
}

// apply takes what a source said at now, and reports whether there are other secrets than before.
func (s *safe) apply(in secretEvent, now time.Time) (changed bool) {
	t := s.sources[in.source]
	switch {
	case in.started:
		if t.again = map[string]bool{}; t.status.State == SourceFailed {
			t.status.Restarts++
		}
		t.status.State = SourceSyncing
	case in.ended && in.err == nil:
		t.status.State, t.settled = SourceEnded, true
	case in.ended:
		t.status.State, t.status.Error, t.status.ErrorTime = SourceFailed, in.err.Error(), now
		s.say(slog.LevelError, "source of secrets failed, what it told before is served", "source", in.source, "err", in.err, "restart", in.restart)
	default:
		changed = s.update(t, in.update)
	}
	if changed {
		t.status.Changed = now
	}
	return changed
}

func (s *safe) update(t *secretCache, u secret.Update) (changed bool) {
	for _, key := range slices.Sorted(maps.Keys(u.Groups)) {
		group := u.Groups[key]
		if t.again != nil {
			t.again[key] = true
		}
		s.note(t, key, group.Faults)
		before, had := t.groups[key]
		switch {
		case group.Malformed(), had && len(group.Secrets) > 0 && group.Same(before):
		case len(group.Secrets) > 0:
			t.groups[key], changed = group, true
		case had:
			delete(t.groups, key)
			changed = true
		}
	}
	if !u.Synced {
		return changed
	}
	if t.status.Late {
		s.say(slog.LevelInfo, "source of secrets synced after its deadline", "source", t.status.Name)
	}
	t.status.State, t.status.Late, t.settled = SourceSynced, false, true
	for key := range t.groups {
		if t.again != nil && !t.again[key] {
			delete(t.groups, key)
			changed = true
		}
	}
	for key := range t.faults {
		if t.again != nil && !t.again[key] {
			delete(t.faults, key)
		}
	}
	t.again = nil
	return changed
}

// note keeps the faults of a record; none ends those that were kept.
func (s *safe) note(t *secretCache, key string, faults []string) {
	before := t.faults[key]
	if len(faults) == 0 {
		delete(t.faults, key)
		if len(before) > 0 {
			s.say(slog.LevelInfo, "secret is read again", "source", t.status.Name, "record", key)
		}
		return
	}
	if t.faults[key] = faults; !slices.Equal(before, faults) {
		s.say(slog.LevelError, "secret not read, the last one stays", "source", t.status.Name, "record", key, "reasons", faults)
	}
}

// expire gives up waiting for the sources that have not synced.
func (s *safe) expire(timeout time.Duration) {
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		if t := s.sources[name]; !t.settled && !t.status.Late {
			t.status.Late = true
			s.say(slog.LevelError, "source of secrets has not synced in time, discovery goes on without it", "source", name, "timeout", timeout,
				"reason", t.status.Error)
		}
	}
}

// complete reports whether no source is waited for.
func (s *safe) complete() bool {
	for _, t := range s.sources {
		if !t.settled && !t.status.Late {
			return false
		}
	}
	return true
}

// unite makes the set of now, and says which names have lost their secret to another source.
func (s *safe) unite() secret.Set {
	told := map[string]map[string]secret.Group{}
	for name, t := range s.sources {
		told[name] = t.groups
	}
	all, losers := secret.Unite(told)
	for _, source := range slices.Sorted(maps.Keys(losers)) {
		for _, loser := range losers[source] {
			if !slices.Contains(s.losers[source], loser) {
				s.say(slog.LevelWarn, "two sources have one secret", "source", source, "reason", loser)
			}
		}
	}
	s.losers = losers
	return all
}

func (s *safe) report() (out []SourceStatus) {
	for _, name := range slices.Sorted(maps.Keys(s.sources)) {
		t := s.sources[name]
		status := t.status
		for _, group := range t.groups {
			status.Objects += len(group.Secrets)
		}
		for _, key := range slices.Sorted(maps.Keys(t.faults)) {
			for _, fault := range t.faults[key] {
				status.Malformed = append(status.Malformed, fmt.Sprintf("%s: %s", key, fault))
			}
		}
		status.Shadowed = s.losers[name]
		out = append(out, status)
	}
	return out
}

// keep runs the sources of secrets until ctx is done, and gives the vault what they tell. settled is called once none of
// them is waited for, and the vault has what there is.
func (s *Server) keep(ctx context.Context, settled func()) error {
	state := newSafe(slices.Collect(maps.Keys(s.Secrets)))
	var g errgroup.Group
	in := make(chan secretEvent)
	for name, source := range s.Secrets {
		g.Go(func() error {
			again(ctx, s.random,
				func() error { return followSecrets(ctx, name, source, in) },
				func(err error, wait time.Duration) {
					sendSecrets(ctx, in, secretEvent{source: name, ended: true, err: err, restart: wait})
				})
			return nil
		})
	}
	var deadline <-chan time.Time
	if s.Patience.Sync > 0 {
		deadline = time.After(s.Patience.Sync)
	}
	for waiting := true; ; {
		changed := false
		select {
		case <-ctx.Done():
			return g.Wait()
		case event := <-in:
			changed = state.apply(event, time.Now())
		case <-deadline:
			state.expire(s.Patience.Sync)
		}
		done := waiting && state.complete()
		if done || changed && !waiting {
			s.Vault.SetSecrets(state.unite())
		}
		for _, m := range state.messages {
			s.Log.Log(ctx, m.level, m.text, m.args...)
		}
		state.messages = nil
		statuses := state.report()
		s.secretStatuses.Store(&statuses)
		if done {
			waiting = false
			settled()
		}
	}
}

// followSecrets runs a source once and passes on what it says.
func followSecrets(ctx context.Context, name string, source secret.Source, in chan<- secretEvent) error {
	sendSecrets(ctx, in, secretEvent{source: name, started: true})
	var g errgroup.Group
	updates := make(chan secret.Update)
	g.Go(func() error {
		defer close(updates)
		return source.Run(ctx, updates)
	})
	g.Go(func() error {
		for u := range updates {
			sendSecrets(ctx, in, secretEvent{source: name, update: u})
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return fmt.Errorf("run source %s: %w", name, err)
	}
	return nil
}

func sendSecrets(ctx context.Context, in chan<- secretEvent, event secretEvent) {
	select {
	case in <- event:
	case <-ctx.Done():
	}
}
