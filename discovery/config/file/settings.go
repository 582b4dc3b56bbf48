package file

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/watch"
)

// Ticker sends a tick when to look again: once at its start, and when files may have changed.
type Ticker interface {
	Run(ctx context.Context, ticks chan<- struct{}) error
}

// Settings sends the mesh's settings of a file, and then changes. A file that is refused changes nothing, nor does one that a process
// has open for writing, until writeWait after its last change; until a file was read without error, the source has not synced. The
// source's status shows the reason as a malformed record.
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
	var known []config.Problem
	var again <-chan time.Time
	var w waiting
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
		case <-again:
		}
		again = nil
		f := read(s.Path, maxFile, func(now Stat) bool { return !w.done(now, time.Now()) })
		if f.Unfinished {
			again = time.After(writePoll)
			continue
		}
		next, problems := s.decode(f)
		was := faults(known)
		logProblems(s.Log, slices.DeleteFunc(slices.Clone(problems),
			func(p config.Problem) bool { return p.Severity == config.Error || slices.Contains(known, p) }))
		known = problems
		group := model.Group{Faults: faults(problems)}
		switch {
		case next == nil && slices.Equal(group.Faults, was),
			next != nil && last != nil && len(was) == 0 && last.Origin == next.Origin && last.Warnings.Same(next.Warnings) &&
				proto.Equal(last.Spec.(proto.Message), next.Spec.(proto.Message)):
			continue
		case next != nil:
			last = next
			s.Log.Info("settings read", "kind", s.Kind, "path", s.Path)
			group.Objects = []*model.Object{next}
		}
		select {
		case updates <- model.Update{Groups: map[string]model.Group{s.Kind: group}, Synced: last != nil}:
		case <-ctx.Done():
			return nil
		}
	}
}

// faults returns the problems because of which a file of settings is refused.
func faults(problems []config.Problem) (out []string) {
	for _, p := range problems {
		if p.Severity == config.Error {
			out = append(out, p.String())
		}
	}
	return out
}

// ReadSettings reads a file of MeshConfig or MeshNetworks. It returns nil if the file is refused.
func ReadSettings(kind, path string) (*model.Object, []config.Problem) {
	return Settings{Kind: kind, Path: path}.decode(read(path, maxFile, func(Stat) bool { return false }))
}

func (s Settings) decode(f File) (*model.Object, []config.Problem) {
	if f.Err != nil {
		return nil, []config.Problem{{File: s.Path, Severity: config.Error, Message: f.Err.Error()}}
	}
	return config.DecodeSettings(s.Kind, s.Path, f.Data)
}
