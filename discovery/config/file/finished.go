package file

import (
	"maps"
	"slices"
	"time"
)

// A file that is being written is not complete. Its new form is applied after this time without a write:
const (
	lossWait  = time.Second            // if it holds less than before: it may have been truncated in order to be written again
	writeWait = 30 * time.Second       // if a process has it open for writing; otherwise it is applied at once
	writePoll = 200 * time.Millisecond // how often to check whether a process has it open: there is no event for a close
)

// waiting is a file with a new form that is not applied yet.
type waiting struct {
	stat  Stat
	since time.Time // of these figures
	until time.Time // when it is applied, unless it changes
}

// done reports whether to read the one file of a source, with a new form or not, now.
func (w *waiting) done(stat Stat, now time.Time) bool {
	if !w.stat.same(stat) {
		w.stat, w.since = stat, now
	}
	return !stat.Writing || now.Sub(w.since) >= writeWait
}

// finished reports whether to apply the new form of a file now. If not, the file waits.
func (s *state) finished(was, p *parsed, now time.Time) bool {
	w, waits := s.waiting[p.name]
	if !waits || !w.stat.same(p.stat) {
		w.since = now
	}
	w.stat, w.until = p.stat, now
	switch {
	case p.stat.Writing:
		w.until = w.since.Add(writeWait)
	case p.unfinished:
		w.until = now.Add(writePoll) // it must be read first
	case was != nil && p.drops(was):
		if w.until = w.since.Add(lossWait); p.stat.Modified.Before(w.since) {
			w.until = p.stat.Modified.Add(lossWait)
		}
	}
	if !w.until.After(now) {
		delete(s.waiting, p.name)
		return true
	}
	s.waiting[p.name] = w
	return false
}

// skipsRead reports whether a file that is being written need not be read yet.
func (s *state) skipsRead(name string, stat Stat, now time.Time) bool {
	w, waits := s.waiting[name]
	return !waits || !w.stat.same(stat) || now.Before(w.since.Add(writeWait))
}

// wakeAt returns when to look again even if no file changes.
func (s *state) wakeAt(now time.Time) time.Time {
	next := s.held.until
	for _, w := range s.waiting {
		at := w.until
		if w.stat.Writing {
			at = now.Add(writePoll)
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// waitingFiles returns the files to read again at wakeAt.
func (s *state) waitingFiles() []string { return slices.Sorted(maps.Keys(s.waiting)) }

// unwritten reports whether no file waits for the end of a write: until then the first mesh would be incomplete.
func (s *state) unwritten() bool {
	for name, w := range s.waiting {
		if w.stat.Writing && s.files[name] == nil {
			return false
		}
	}
	return true
}
