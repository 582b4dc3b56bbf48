package watch

import "time"

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
