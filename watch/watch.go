package watch

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
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
	Recheck time.Duration // how often it ticks without an event; 0 is never
	Log     *slog.Logger
}

// Run ticks once when the watches stand, then after each burst of changes, until ctx is done. ticks needs a capacity
// of one: a tick that was not received yet stands for the next ones too.
//
// Where the system grants no watch (inotify's limits: 128 watchers for a user, by default), Run says so in the log and
// ticks every second until it gets one. Where files beside the watched ones have too many events, it is deaf for a
// second and ticks then.
func (w Watcher) Run(ctx context.Context, ticks chan<- struct{}) error {
	a := newRechecked(newArmed(w.Paths, w.Log), w.Recheck)
	defer a.close()
	changes := newBurst(w.Quiet, w.Ceiling)
	defer changes.calm.Stop()
	tick(ticks)

	var others noise
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-a.events():
			switch {
			case relevant(e.Name, a.targets):
				if e.Op&^(fsnotify.Write|fsnotify.Chmod) != 0 {
					a.arm()
				}
				changes.changed()
			case others.loud(time.Now()):
				a.deafen()
				a.timer.Reset(poll)
			}
		case err := <-a.errors(): // a queue that overflowed has lost events
			w.Log.Warn("watch lost events", "err", err)
			a.arm()
			changes.changed()
		case <-changes.calm.C:
			changes.told()
			tick(ticks)
		case <-a.timer.C:
			a.arm()
			tick(ticks)
		}
	}
}

// due says when the changes between first and last are reported.
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

// rechecked are watches that stand, and the timer after which everything is looked at, also without an event.
type rechecked struct {
	*armed
	timer *time.Timer
	every time.Duration // 0 is never
}

func newRechecked(a *armed, every time.Duration) *rechecked {
	r := &rechecked{a, idleTimer(), every}
	r.arm()
	return r
}

// arm watches the directories that matter now, and sets the timer anew.
func (r *rechecked) arm() {
	r.armed.arm()
	r.timer.Stop()
	if every := interval(r.every, r.blind); every > 0 {
		r.timer.Reset(every)
	}
}

func (r *rechecked) close() {
	r.timer.Stop()
	r.armed.close()
}

// burst is changes that are reported together: when it is calm, but not later than a ceiling after the first.
type burst struct {
	calm           *time.Timer
	quiet, ceiling time.Duration
	first          time.Time // zero where all is reported
}

func newBurst(quiet, ceiling time.Duration) *burst {
	return &burst{calm: idleTimer(), quiet: quiet, ceiling: ceiling}
}

func (b *burst) changed() {
	now := time.Now()
	if b.first.IsZero() {
		b.first = now
	}
	b.calm.Reset(due(b.first, now, b.quiet, b.ceiling).Sub(now))
}

func (b *burst) told() { b.first = time.Time{} }

// Appears waits until there is something at a path, or ctx is done. Where the system grants no watch of its directory, it looks every 20 ms.
func Appears(ctx context.Context, path string) {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	var events <-chan fsnotify.Event
	if notify, err := fsnotify.NewWatcher(); err == nil {
		defer notify.Close()
		if notify.Add(filepath.Dir(path)) == nil {
			events = notify.Events
			look.Reset(poll) // an event may be lost
		}
	}
	for {
		if _, err := os.Lstat(path); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-events:
		case <-look.C:
		}
	}
}
