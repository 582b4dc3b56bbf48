package proxy

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/watch"
)

// fileWatch ticks when one of the files of Envoy's SDS subscriptions has changed.
type fileWatch struct {
	ticks chan struct{}
	log   *slog.Logger

	paths []string
	end   func()
}

// follow watches the files of these secrets from now on. A new watch ticks once it is set up, so that no change is
// lost.
func (f *fileWatch) follow(ctx context.Context, names []string) {
	var paths []string
	for _, name := range names {
		files, _ := sds.FilesOf(name) // names has only names of files
		paths = append(paths, files.Paths()...)
	}
	slices.Sort(paths)
	if paths = slices.Compact(paths); slices.Equal(paths, f.paths) {
		return
	}
	f.stop()
	f.paths = paths
	if len(paths) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	f.end = func() {
		cancel()
		<-done
	}
	watcher := watch.Watcher{Paths: paths, Quiet: 20 * time.Millisecond, Ceiling: time.Second, Recheck: recheck, Log: f.log}
	go func() {
		defer close(done)
		if err := watcher.Run(ctx, f.ticks); err != nil && ctx.Err() == nil {
			f.log.Error("files of secrets not watched", "err", err)
		}
	}()
}

func (f *fileWatch) stop() {
	if f.end != nil {
		f.end()
		f.end = nil
	}
}
