package file

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/watch"
)

// Settings tells the mesh's settings that a file holds, and then what changes. A file that is refused changes nothing;
// until one could be read once, the source has not synced.
type Settings struct {
	Kind   string // MeshConfig or MeshNetworks
	Path   string
	Ticker Ticker
	Log    *slog.Logger
}

// NewSettings returns the Settings of a file that the system watches.
func NewSettings(kind, path string, log *slog.Logger) Settings {
	files := watch.Watcher{Paths: []string{path}, Quiet: quiet, Ceiling: ceiling, Recheck: recheck, Log: log}
	return Settings{kind, path, files, log}
}

// Run sends updates until ctx is done.
func (s Settings) Run(ctx context.Context, updates chan<- model.Update) error {
	g, ctx := errgroup.WithContext(ctx)
	ticks := make(chan struct{}, 1)
	g.Go(func() error { return s.Ticker.Run(ctx, ticks) })
	g.Go(func() error { return s.follow(ctx, ticks, updates) })
	return g.Wait()
}

func (s Settings) follow(ctx context.Context, ticks <-chan struct{}, updates chan<- model.Update) error {
	var last *model.Object
	log := Source{Log: s.Log}
	known := map[config.Problem]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
		}
		next, problems := s.read()
		known = log.tell(known, problems)
		if next == nil || last != nil && equal(last, next) {
			continue
		}
		last = next
		s.Log.Info("settings read", "kind", s.Kind, "path", s.Path)
		select {
		case updates <- model.Update{
			Groups: map[string]model.Group{s.Kind: {Objects: []*model.Object{next}}},
			Synced: true,
		}:
		case <-ctx.Done():
			return nil
		}
	}
}

// read returns nil where the file is to be refused.
func (s Settings) read() (*model.Object, []config.Problem) {
	f := read(s.Path)
	if f.Err != nil {
		return nil, []config.Problem{{File: s.Path, Severity: config.Error, Message: f.Err.Error()}}
	}
	return config.DecodeSettings(s.Kind, s.Path, f.Data)
}
