package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// life is the state of a source itself, without its groups. It reads no clock.
type life[U any] struct {
	feed   *feedOf[U]          // nil when the source was removed, and its groups are held
	faults map[string][]string // of records that are malformed, by key
	unread map[string]bool     // keys of parts that cannot be read: see model.Group

	// resent holds the keys that the source has sent since it was started, until it has synced: a group that it does
	// not send again was deleted while the source was not running. Nil after that.
	resent map[string]bool

	required bool      // there is no first mesh without the source
	deadline time.Time // the first mesh waits for the source until then; zero for ever
	settled  bool      // it has synced, or ended, at least once
	failed   time.Time // since when it has not synced after an error; zero for an error-free source
	logged   time.Time // when the log last told this
	status   SourceStatus
}

// logAgain is how often the log repeats that a source fails: it may be started again every few seconds, for hours.
const logAgain = 10 * time.Minute

func (l *life[U]) current() *feedOf[U] { return l.feed }

// begin makes the life one of another feed. Its groups, and so their number, stay.
func (l *life[U]) begin(f *feedOf[U], deadline time.Time) {
	l.feed, l.settled, l.deadline, l.faults, l.unread = f, false, deadline, map[string][]string{}, map[string]bool{}
	l.failed = time.Time{}
	l.status = SourceStatus{Name: f.name, State: SourceSyncing, Objects: l.status.Objects, Changed: l.status.Changed}
}

// started records that the source runs, and sends all its records again.
func (l *life[U]) started() {
	if l.resent = map[string]bool{}; l.status.State == SourceFailed {
		l.status.Restarts++
	}
	l.status.State = SourceSyncing
}

// ended records the end of the source, with its error. It returns the level at which the log tells the error: after the
// first one debug, until the source has synced or logAgain has passed.
func (l *life[U]) ended(err error, now time.Time) slog.Level {
	if err == nil {
		l.status.State, l.settled = SourceEnded, true
		return slog.LevelDebug
	}
	l.status.State, l.status.Error, l.status.ErrorTime = SourceFailed, err.Error(), now
	if l.failed.IsZero() {
		l.failed, l.logged = now, time.Time{}
	}
	if !l.logged.IsZero() && now.Sub(l.logged) < logAgain {
		return slog.LevelDebug
	}
	l.logged = now
	return slog.LevelError
}

// synced records that the source has sent its whole initial state. It reports whether its deadline had passed, and how
// long the source has failed; zero for not at all.
func (l *life[U]) synced(now time.Time) (late bool, failed time.Duration) {
	for key := range l.unread {
		if l.resent != nil && !l.resent[key] {
			delete(l.unread, key) // of an earlier run
		}
	}
	late = l.status.Late
	if !l.failed.IsZero() {
		failed = now.Sub(l.failed)
	}
	l.status.State, l.status.Late, l.settled, l.failed = SourceSynced, false, true, time.Time{}
	return late, failed
}

// whole reports whether the source has synced, and no part of it is unread.
func (l *life[U]) whole() bool { return l.settled && len(l.unread) == 0 }

// pending reports whether the source has neither synced nor passed its deadline.
func (l *life[U]) pending() bool { return l.feed != nil && !l.settled && !l.status.Late }

// expire records that the deadline has passed, and reports it once.
func (l *life[U]) expire(now time.Time) bool {
	if !l.pending() || l.deadline.IsZero() || now.Before(l.deadline) {
		return false
	}
	l.status.Late = true
	return true
}

// read records that the source has sent a record, with its faults, and reports whether these are others than before.
func (l *life[U]) read(key string, faults []string) bool {
	l.stands(key)
	if slices.Equal(l.faults[key], faults) {
		return false
	}
	if l.faults[key] = faults; len(faults) == 0 {
		delete(l.faults, key)
	}
	l.status.Malformed, l.status.Unread = nil, nil // report makes them again
	return true
}

// part records that the source has sent a group, and whether it is one of a part that cannot be read.
func (l *life[U]) part(key string, unread bool) {
	if l.unread[key] == unread {
		return
	}
	if l.unread[key] = unread; !unread {
		delete(l.unread, key)
	}
	l.status.Malformed, l.status.Unread = nil, nil
}

// stands records that the source still has a record.
func (l *life[U]) stands(key string) {
	if l.resent != nil {
		l.resent[key] = true
	}
}

// report returns the status.
func (l *life[U]) report() SourceStatus {
	if l.status.Malformed == nil && l.status.Unread == nil && len(l.faults) > 0 {
		for _, key := range slices.Sorted(maps.Keys(l.faults)) {
			to := &l.status.Malformed
			if l.unread[key] {
				to = &l.status.Unread
			}
			for _, fault := range l.faults[key] {
				*to = append(*to, fmt.Sprintf("%s: %s", key, fault))
			}
		}
	}
	out := l.status
	out.Required = l.required
	return out
}

// message is a line of the log.
type message struct {
	level slog.Level
	text  string
	args  []any
}

// journal keeps messages for the log.
type journal struct{ messages []message }

func (j *journal) log(level slog.Level, text string, args ...any) {
	j.messages = append(j.messages, message{level, text, args})
}

// write writes the messages, and forgets them.
func (j *journal) write(ctx context.Context, log *slog.Logger) {
	for _, m := range j.messages {
		log.Log(ctx, m.level, m.text, m.args...)
	}
	j.messages = nil
}
