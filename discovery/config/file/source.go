package file

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/watch"
)

// How patiently the directory is watched. Quiet outlasts the writes of one save.
const (
	quiet   = 50 * time.Millisecond
	ceiling = time.Second
	recheck = 30 * time.Second
)

// Ticker says when to look again: once at its start, and when files may have changed.
type Ticker interface {
	Run(ctx context.Context, ticks chan<- struct{}) error
}

// Source tells the objects below Path, and then what changes.
type Source struct {
	Path   string // a directory or a file
	Ticker Ticker
	Log    *slog.Logger
}

// New returns the Source of a directory or file that the system watches.
func New(path string, log *slog.Logger) Source {
	files := watch.Watcher{Paths: []string{path}, Quiet: quiet, Ceiling: ceiling, Recheck: recheck, Log: log}
	return Source{path, files, log}
}

// Run sends updates until ctx is done. Files with errors are logged and do not end it.
func (s Source) Run(ctx context.Context, updates chan<- model.Update) error {
	g, ctx := errgroup.WithContext(ctx)
	ticks := make(chan struct{}, 1)
	g.Go(func() error { return s.Ticker.Run(ctx, ticks) })
	g.Go(func() error { return s.follow(ctx, ticks, updates) })
	return g.Wait()
}

func (s Source) follow(ctx context.Context, ticks <-chan struct{}, updates chan<- model.Update) error {
	var last state
	known := map[config.Problem]bool{}
	synced := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
		}
		files, err := Read(s.Path)
		if err != nil {
			known = s.tell(known, []config.Problem{{File: s.Path, Severity: config.Error, Message: err.Error()}})
			continue
		}
		next, groups, problems := plan(last, files)
		known = s.tell(known, problems)
		last = next
		if synced && len(groups) == 0 {
			continue
		}
		s.Log.Info("configuration read", "path", s.Path, "objects", len(next.objects), "changed", len(groups))
		select {
		case updates <- model.Update{Groups: groups, Synced: true}:
			synced = true
		case <-ctx.Done():
			return nil
		}
	}
}

// tell logs the problems that are not known yet and returns those that are known now: one that went and came back is
// told again.
func (s Source) tell(known map[config.Problem]bool, problems []config.Problem) map[config.Problem]bool {
	now := map[config.Problem]bool{}
	for _, p := range problems {
		if !known[p] && !now[p] {
			level := slog.LevelWarn
			if p.Severity == config.Error {
				level = slog.LevelError
			}
			s.Log.Log(context.Background(), level, "configuration problem", "file", p.File, "line", p.Line,
				"object", p.Object, "field", p.Path, "reason", p.Message)
		}
		now[p] = true
	}
	return now
}
