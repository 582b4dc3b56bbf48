package lastgood

import (
	"slices"
	"time"
)

// rewriteAt is how much a journal grows, beside as much as it held, before it is written anew: in bytes.
const rewriteAt = 1 << 20

// Session records one stream. A session that was followed by another one of its process does nothing, and neither does nil, nor one that
// waits until recording is tried again.
type Session struct {
	journal *journal    // nil for one that waits
	waits   *time.Timer // likewise: its restart
	restart func()
	asked   map[string]bool // types of this stream
	open    bool            // a response is half-recorded
	number  uint64
}

// with calls f under the store's lock if the session counts.
func (s *Session) with(f func(j *journal)) {
	if s == nil || s.journal == nil {
		return
	}
	s.journal.store.mu.Lock()
	defer s.journal.store.mu.Unlock()
	if j := s.journal; j.session == s && !j.failed {
		f(j)
	}
}

// Begin begins a response of that size.
func (s *Session) Begin(size int) {
	s.with(func(j *journal) {
		s.abort() // if the one before has not ended
		j.numbers++
		s.open, s.number = true, j.numbers
		number := j.numbers
		j.store.queue(j, func() error { return j.begin(number, size) })
		j.grown += int64(size)
	})
}

// Write records the next part of a response. It never fails: what cannot be recorded ends the recording.
func (s *Session) Write(data []byte) (int, error) {
	s.with(func(j *journal) {
		if s.open {
			data := slices.Clone(data)
			j.store.queue(j, func() error { return j.chunk(data) })
		}
	})
	return len(data), nil
}

// End ends a response. names are those of its resources, for clusters and listeners.
func (s *Session) End(typeURL, nonce string, names []string, last Mark) {
	s.with(func(j *journal) {
		if s.open {
			s.open = false
			j.store.queue(j, j.end)
			j.progress.pending[pendingKey(typeURL, nonce)] = pending{typeURL, s.number, names, last}
			j.compact()
		}
	})
}

// Abort removes a response that has ended early.
func (s *Session) Abort() { s.with(func(*journal) { s.abort() }) }

func (s *Session) abort() {
	if s.open {
		s.open = false
		s.journal.store.queue(s.journal, s.journal.cut)
	}
}

// Fail ends recording, since something that Envoy has got cannot be recorded.
func (s *Session) Fail(err error) { s.with(func(j *journal) { j.store.fail(j, err) }) }

// Request takes what Envoy asks and answers. It reports whether what Envoy has of the type is recorded: if not, its versions must not be
// passed on, so that discovery sends everything, however many streams have ended before that. Where nothing is recorded it is true.
func (s *Session) Request(r Request) (recorded bool) {
	recorded = true
	s.with(func(j *journal) {
		if r.Type != "" && !s.asked[r.Type] {
			s.asked[r.Type], j.progress.asked[r.Type] = true, true
			for _, number := range j.progress.resume(r.Type, r.Versions) {
				j.store.queue(j, func() error { return j.accept(number, nil) })
			}
		}
		recorded = r.Type == "" || j.progress.accepted[r.Type]
		if number, refused, counts := j.progress.answer(r); counts {
			j.store.queue(j, func() error { return j.accept(number, refused) })
		}
		j.settle()
	})
	return recorded
}

// Contact notes that discovery was there at a time: until then the configuration was the newest.
func (s *Session) Contact(at time.Time) {
	s.with(func(j *journal) {
		j.store.queue(j, func() error { return j.contact(at) })
	})
}

// compact writes a journal anew that has grown, between two responses.
func (j *journal) compact() {
	if j.grown > j.held.Load()+rewriteAt {
		j.grown = 0
		unanswered := j.progress.unanswered()
		j.store.queue(j, func() error { return j.rewrite(unanswered) })
	}
}

// settle plans when the journal becomes whole.
func (j *journal) settle() {
	quiet, most := j.progress.wait()
	if j.whole || j.failed || most == 0 {
		return
	}
	now := j.store.now()
	if most != j.most {
		j.most, j.latest = most, now.Add(most)
	}
	wait := min(quiet, j.latest.Sub(now))
	if most != patience && j.free.Load() {
		wait = 0
	}
	if j.timer == nil {
		j.timer = time.AfterFunc(wait, j.becomesWhole)
	} else {
		j.timer.Reset(wait)
	}
}

// becomesWhole gives the journal the name, and takes it from the one that had it. That of a newcomer that is held waits: it may be refused.
func (j *journal) becomesWhole() {
	s := j.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if j.whole || j.failed || s.journals[j.process] != j {
		return
	}
	if !s.serves(j.process) {
		if j.session != nil { // else its next stream plans it again
			j.timer.Reset(heldTime)
		}
		return
	}
	j.held.Add(j.grown)
	j.whole, j.grown = true, 0
	for _, other := range s.journals {
		other.free.Store(other.header.differs(j.header) != "")
		if other != j && other.whole {
			other.failed = true
			s.do(func() { other.named = false; other.close() }) // nothing of it may go to the name any more
		}
	}
	s.queue(j, func() error {
		err := j.take()
		if err == nil {
			s.telling.Go(func() { s.remembered(j.header.Node) })
		}
		return err
	})
}

// Close ends the session with its stream.
func (s *Session) Close() {
	if s != nil && s.waits != nil {
		s.waits.Stop()
	}
	s.with(func(j *journal) {
		s.abort()
		j.session = nil
		if !j.progress.cut() {
			j.failed = true // the next stream begins anew
		}
	})
}
