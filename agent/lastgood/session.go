package lastgood

import (
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
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

// Request takes what Envoy asks and answers.
func (s *Session) Request(r Request) {
	s.with(func(j *journal) {
		if r.Type != "" && !s.asked[r.Type] {
			s.asked[r.Type], j.progress.asked[r.Type] = true, true
			for _, number := range j.progress.resume(r.Type, r.Versions) {
				j.store.queue(j, func() error { return j.accept(number, nil) })
			}
		}
		if number, refused, counts := j.progress.answer(r); counts {
			j.store.queue(j, func() error { return j.accept(number, refused) })
		}
		j.settle()
	})
}

// Contact notes that discovery was there at a time: until then the configuration was the newest.
func (s *Session) Contact(at time.Time) {
	s.with(func(j *journal) {
		j.store.queue(j, func() error { return j.contact(at) })
	})
}

// settle plans what follows when there is no news for a time.
func (j *journal) settle() {
	if j.whole {
		if len(j.progress.pending)+len(j.progress.unsure) == 0 && j.grown > j.held.Load()+rewriteAt && !j.session.open {
			j.grown = 0
			j.store.queue(j, j.rewrite)
		}
		return
	}
	wait, known := j.progress.wait()
	switch {
	case !known:
	case j.timer == nil:
		j.timer = time.AfterFunc(wait, j.becomesWhole)
	default:
		j.timer.Reset(wait)
	}
}

// becomesWhole gives the journal the name, and takes it from the one that had it. That of a newcomer that is held waits: it may be refused.
func (j *journal) becomesWhole() {
	s := j.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := j.progress.wait(); !known || j.whole || j.failed || s.journals[j.process] != j {
		return
	}
	if !s.serves(j.process) {
		j.timer.Reset(quietTime)
		return
	}
	j.held.Store(j.grown)
	j.whole, j.grown = true, 0
	for _, other := range s.journals {
		if other != j && other.whole {
			other.failed = true
			s.do(func() { other.named = false; other.close() }) // nothing of it may go to the name any more
		}
	}
	s.queue(j, func() error {
		err := j.take()
		if err == nil {
			s.telling.Go(s.remembered)
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

// put writes a resource with its ACK; without data, that the type has none.
func (j *journal) put(typeURL string, data []byte) error {
	message := frame.Append(frame.Append(nil, 2, data), 4, []byte(typeURL))
	if err := j.begin(0, len(message)); err != nil {
		return err
	}
	if err := j.chunk(message); err != nil {
		return err
	}
	if err := j.end(); err != nil {
		return err
	}
	return j.accept(0, nil)
}
