package consul

import (
	"time"
)

// When a round begins. A round reads every service.
const (
	grace    = time.Second      // time for another list to name a change of the catalogue
	between  = time.Second      // minimum between two rounds; at least as long as the first of them took
	stillFor = 30 * time.Second // without a change
	atLatest = 5 * time.Minute  // even if the catalogue changes all the time
)

// rounds decides when a round is due. A new index of the catalogue shows that an instance was registered, changed or
// removed, but not which one. Mostly another answer names it: a check that was added or removed with it, or an instance
// that was read since and has this index. If none does, a round is due. If one does, there may still be an earlier
// change that no answer named, and a round is due when the catalogue has not changed for a while.
type rounds struct {
	index     uint64    // of the catalogue
	explained bool      // an answer named the change of this index
	first     time.Time // change since the last round; zero for none
	last      time.Time // change
	next      time.Time // before which no round begins
}

// moved records that the catalogue has another index.
func (r *rounds) moved(index uint64, now time.Time) {
	r.index, r.explained, r.last = index, false, now
	if r.first.IsZero() {
		r.first = now
	}
}

// named records that an answer with this index named services.
func (r *rounds) named(index uint64) {
	r.explained = r.explained || index == r.index
}

// lost records that the old indexes are not valid any more: the servers have another history. A round is due at once.
func (r *rounds) lost(now time.Time) {
	r.moved(0, now)
	r.first, r.last = now.Add(-atLatest), now.Add(-atLatest)
}

// done records the end of a round that began at a time. A change since then needs another round.
func (r *rounds) done(began, now time.Time) {
	r.next = now.Add(max(between, now.Sub(began)))
	if r.last.After(began) {
		r.first = r.last
	} else {
		r.first = time.Time{}
	}
}

// due returns when a round is due if nothing changes until then; the zero time for none.
func (r *rounds) due() time.Time {
	if r.first.IsZero() {
		return time.Time{}
	}
	at := r.last.Add(grace)
	if r.explained {
		at = earlier(r.last.Add(stillFor), r.first.Add(atLatest))
	}
	if at.Before(r.next) {
		return r.next
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// queue holds the names of services to read, each once, in the order in which they were added. While a service is being
// read, next does not return it: an older answer must not replace a newer one.
type queue struct {
	order   []string
	waiting names
	reading names
}

func newQueue() *queue { return &queue{waiting: names{}, reading: names{}} }

func (q *queue) add(all names) {
	for name := range all {
		if !q.waiting[name] {
			q.waiting[name] = true
			q.order = append(q.order, name)
		}
	}
}

// drop removes services that no longer exist.
func (q *queue) drop(all names) {
	for name := range all {
		delete(q.waiting, name)
	}
}

// next returns a service that can be read now.
func (q *queue) next() (string, bool) {
	kept := q.order[:0]
	found, at := "", false
	for i, name := range q.order {
		switch {
		case !q.waiting[name]: // dropped, or begun
			continue
		case !q.reading[name]:
			found, at = name, true
			kept = append(kept, q.order[i:]...)
		default:
			kept = append(kept, name)
			continue
		}
		break
	}
	q.order = kept
	return found, at
}

// begin records that reading a service has begun, end that it has ended.
func (q *queue) begin(name string) {
	delete(q.waiting, name)
	q.reading[name] = true
}

func (q *queue) end(name string) { delete(q.reading, name) }

func (q *queue) len() int { return len(q.waiting) + len(q.reading) }

func (q *queue) empty() bool { return q.len() == 0 }
