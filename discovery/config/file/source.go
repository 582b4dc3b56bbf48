package file

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/watch"
)

// How long changes of files are collected. quiet is longer than the writes of one save.
const (
	quiet   = 50 * time.Millisecond
	ceiling = time.Second
	recheck = 30 * time.Second
)

// Watcher sends the files that may have changed: all of them at its start.
type Watcher interface {
	Run(ctx context.Context, changes chan<- watch.Changes) error
}

// Source sends the objects of the files at Path and below it, and then changes.
type Source struct {
	Path      string // a directory or a file
	WipeDelay time.Duration
	Watcher   Watcher
	Log       *slog.Logger

	// Manifests returns a converter of Kubernetes' own objects to services and workloads, a new one for each run; nil
	// leaves them out.
	Manifests func() Manifests

	status  atomic.Pointer[Status]
	release chan struct{} // has a value when an operator has asked; nil for never
}

// New returns the Source of a directory or file that the system watches. If more than half of all services, or all
// objects of a kind, disappear at once, they are still served for wipeDelay.
func New(path string, wipeDelay time.Duration, log *slog.Logger) *Source {
	files := watch.Tree{Path: path, Quiet: quiet, Ceiling: ceiling, Recheck: recheck, Log: log}
	return &Source{Path: path, WipeDelay: wipeDelay, Watcher: files, Log: log, release: make(chan struct{}, 1)}
}

// Status returns the state of the store.
func (s *Source) Status() Status {
	if now := s.status.Load(); now != nil {
		return *now
	}
	return Status{}
}

// Held returns what is served though it is in no file any more: a text such as "9 of 10 services", the number of objects, since
// when, and until when; "" and 0 for nothing.
func (s *Source) Held() (lost string, objects int, since, until time.Time) {
	now := s.Status()
	return now.Held, now.HeldNow, now.Since, now.Until
}

// Release removes what is in no file any more, though so much disappeared at once that it may be an accident.
func (s *Source) Release() {
	select {
	case s.release <- struct{}{}:
	default: // a nil channel is not ready
	}
}

// Run sends updates until ctx is done. Files with errors are logged and do not end it.
func (s *Source) Run(ctx context.Context, updates chan<- model.Update) error {
	g, ctx := errgroup.WithContext(ctx)
	changes := make(chan watch.Changes)
	g.Go(func() error { return s.Watcher.Run(ctx, changes) })
	g.Go(func() error { return s.follow(ctx, changes, updates) })
	return g.Wait()
}

func (s *Source) follow(ctx context.Context, changes <-chan watch.Changes, updates chan<- model.Update) error {
	st := newState(s.WipeDelay)
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	fault, synced, certain := "", false, false
	unsent, blind := map[string]model.Group{}, map[string]model.Group{}
	var manifests Manifests
	if s.Manifests != nil {
		manifests = s.Manifests()
	}
	for {
		var c watch.Changes
		select {
		case <-ctx.Done():
			return nil
		case c = <-changes:
		case <-s.release:
			st.held.asked = true
		case <-timer.C:
			c.Paths = st.waitingFiles()
		}
		l, err := st.look(s.Path, c, time.Now())
		if err != nil {
			fault = s.unread(err, fault)
			continue
		}
		fault = ""
		out := st.apply(l, time.Now())
		out.problems = append(out.problems, understand(manifests, out.groups)...)
		if logProblems(s.Log, out.problems); out.hold != "" {
			s.Log.Error("configuration is "+out.hold, "path", s.Path, "objects", len(st.missing))
		}
		if timer.Stop(); !out.wakeAt.IsZero() {
			timer.Reset(time.Until(out.wakeAt))
		}
		status := st.status()
		s.status.Store(&status)
		maps.Copy(unsent, out.groups)
		certain = certain || out.certain
		now := st.blind()
		maps.Copy(unsent, compare(blind, now))
		blind = now
		if synced && len(unsent) == 0 || !synced && !st.unwritten() {
			continue
		}
		next := model.Update{Groups: unsent, Synced: true, Certain: certain, Emptied: st.emptied()}
		if !synced {
			s.warn(status)
			next.Stands = st.refused()
		}
		s.tell(len(st.objects), len(unsent))
		select {
		case updates <- next:
			unsent, synced, certain = map[string]model.Group{}, true, false
		case <-ctx.Done():
			return nil
		}
	}
}

// unread logs why the path cannot be read, unless it is the fault that is known, and returns the fault.
func (s *Source) unread(err error, known string) string {
	if err.Error() == known {
		return known
	}
	logProblems(s.Log, []config.Problem{{File: s.Path, Severity: config.Error, Message: err.Error()}})
	status := s.Status()
	status.Fault = err.Error()
	s.status.Store(&status)
	return err.Error()
}

// tell logs what was read: how many objects there are, and how many have changed.
func (s *Source) tell(objects, changed int) {
	s.Log.Info("configuration read", "path", s.Path, "objects", objects, "changed", changed)
	if objects == 0 {
		s.Log.Warn("configuration has no object: nothing is served from it", "path", s.Path, "want", "objects in files named *.yaml, *.yml or *.json")
	}
}

// warn logs at the start which objects and files are of no use: of them this process knows no good form.
func (s *Source) warn(now Status) {
	if missing := len(now.Refused) + len(now.Unread); missing > 0 {
		const most = 10
		names := append(slices.Clone(now.Refused), now.Unread...)
		s.Log.Error("configuration cannot be used, and no good form of it was read since the start", "count", missing, "first", names[:min(missing, most)])
	}
}

// logProblems logs problems.
func logProblems(log *slog.Logger, problems []config.Problem) {
	for _, p := range problems {
		p.Log(log)
	}
}
