package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

// poll is how often to look where the system will not tell.
const poll = time.Second

// Watcher says what to watch and how patiently.
type Watcher struct {
	Paths   []string      // files and directories; what does not exist yet is waited for
	Quiet   time.Duration // a tick follows a change after this long without another
	Ceiling time.Duration // but not later than this after the first one
	Recheck time.Duration // ticks this often whatever happened; 0 is never
	Log     *slog.Logger
}

// Run ticks once when the watches stand, then after each burst of changes, until ctx is done. ticks needs a capacity
// of one: a tick that nobody has taken yet stands for the next ones too.
//
// Where the system grants no watch (inotify's limits: 128 watchers for a user, by default), Run says so in the log and
// ticks every second until it gets one.
func (w Watcher) Run(ctx context.Context, ticks chan<- struct{}) error {
	a := newArmed(w.Paths, w.Log)
	defer a.close()
	recheck, quiet := idleTimer(), idleTimer()
	defer recheck.Stop()
	defer quiet.Stop()
	arm := func() {
		a.arm()
		recheck.Stop()
		if every := interval(w.Recheck, a.blind); every > 0 {
			recheck.Reset(every)
		}
	}
	arm()
	tick(ticks)

	var first, last time.Time // of the changes not told yet
	changed := func() {
		last = time.Now()
		if first.IsZero() {
			first = last
		}
		quiet.Reset(due(first, last, w.Quiet, w.Ceiling).Sub(last))
	}

	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-a.events():
			if relevant(e.Name, a.targets) {
				if e.Op&^(fsnotify.Write|fsnotify.Chmod) != 0 {
					arm()
				}
				changed()
			}
		case err := <-a.errors(): // a queue that overflowed has lost events
			w.Log.Warn("watch lost events", "err", err)
			arm()
			changed()
		case <-quiet.C:
			first = time.Time{}
			tick(ticks)
		case <-recheck.C:
			arm()
			tick(ticks)
		}
	}
}

// due says when the changes between first and last are told.
func due(first, last time.Time, quiet, ceiling time.Duration) time.Time {
	calm, latest := last.Add(quiet), first.Add(ceiling)
	if calm.Before(latest) {
		return calm
	}
	return latest
}

func tick(ticks chan<- struct{}) {
	select {
	case ticks <- struct{}{}:
	default:
	}
}

func idleTimer() *time.Timer {
	t := time.NewTimer(0)
	t.Stop()
	return t
}

// interval is how long to wait for the next recheck, 0 for ever.
func interval(recheck time.Duration, blind bool) time.Duration {
	if blind && (recheck == 0 || recheck > poll) {
		return poll
	}
	return recheck
}
