package file

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pilotlight/pilotlight/discovery/secret"
	"github.com/pilotlight/pilotlight/watch"
)

// Source sends the secrets of a directory. It implements secret.Source.
type Source struct {
	dir  string
	log  *slog.Logger // of the watch
	last map[string]secret.Group

	mu      sync.Mutex
	wanted  []secret.Wanted
	known   map[secret.Name]string // faults of the wanted secrets that were looked for, "" for none
	changed chan struct{}          // gets a value when Want has set other ones

	// OnLearned, if not nil, is called when the result of Known has changed. It must return at once.
	OnLearned func()
}

// New returns the source of a directory.
func New(dir string, log *slog.Logger) *Source {
	return &Source{dir: dir, log: log, known: map[secret.Name]string{}, changed: make(chan struct{}, 1)}
}

// Run sends the secrets, and then the changes. A watch covers one directory, not those below: when the directories
// change, all watches are made again.
func (s *Source) Run(ctx context.Context, updates chan<- secret.Update) error {
	r := &run{Source: s, out: updates, sent: map[string]secret.Group{}}
	for ctx.Err() == nil {
		_, looked := read(s.dir, s.last)
		if err := r.follow(ctx, looked); err != nil {
			return err
		}
	}
	return nil
}

// run is one Run.
type run struct {
	*Source
	out    chan<- secret.Update
	sent   map[string]secret.Group
	synced bool
}

// follow sends the secrets and the changes, until the directories to watch change.
func (r *run) follow(ctx context.Context, watched []string) error {
	ticks := make(chan struct{}, 1) // the first comes when the watches are set up
	watcher := watch.Watcher{Paths: watched, Quiet: 100 * time.Millisecond, Ceiling: time.Second, Recheck: time.Minute, Log: r.log}
	round, end := context.WithCancel(ctx)
	defer end()
	g, round := errgroup.WithContext(round)
	g.Go(func() error { return watcher.Run(round, ticks) })
	g.Go(func() error {
		defer end()
		for {
			select {
			case <-round.Done():
				return nil
			case <-ticks:
			case <-r.changed:
			}
			groups, looked := read(r.dir, r.last)
			known := r.addWanted(groups)
			r.send(round, groups)
			r.learn(known)
			if !slices.Equal(looked, watched) {
				return nil
			}
		}
	})
	return g.Wait()
}

// send sends the groups that differ from those that this run has sent.
func (r *run) send(ctx context.Context, groups map[string]secret.Group) {
	u := secret.Update{Groups: map[string]secret.Group{}, Synced: !r.synced}
	for key, group := range groups {
		if sent, had := r.sent[key]; !had || !sent.Same(group) || !slices.Equal(sent.Faults, group.Faults) {
			u.Groups[key] = group
		}
	}
	for key := range r.sent {
		if _, still := groups[key]; !still {
			u.Groups[key] = secret.Group{}
		}
	}
	if len(u.Groups) == 0 && !u.Synced {
		return
	}
	select {
	case r.out <- u:
		r.sent, r.synced = groups, true
		r.last = good(groups, r.last)
	case <-ctx.Done():
	}
}

// good returns groups, with malformed ones replaced by their last good form.
func good(groups, last map[string]secret.Group) map[string]secret.Group {
	out := map[string]secret.Group{}
	for key, group := range groups {
		if before, had := last[key]; group.Malformed() && had {
			group = before
		}
		if len(group.Secrets) > 0 {
			out[key] = group
		}
	}
	return out
}
