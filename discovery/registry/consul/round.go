package consul

import "time"

// How soon a round begins, that is a reading of every service.
const (
	grace    = time.Second      // until another list may have named a change of the catalogue
	between  = time.Second      // two rounds, at least: as long as the first of them took
	stillFor = 30 * time.Second // without a change
	atLatest = 5 * time.Minute  // though the catalogue changes all the time
)

// rounds decides when a round is due. The index of the catalogue says that some instance was registered, changed or removed,
// and not which. Mostly something else names it: a check that came or went with it, or an instance that was read since and bears the
// index. Where nothing does, a round is due. Where something does, an earlier change may hide behind the last one, and a round is
// due when the catalogue has been still.
type rounds struct {
	index     uint64    // of the catalogue
	explained bool      // something named the change of this index
	first     time.Time // change since the last round; zero for none
	last      time.Time // change
	next      time.Time // before which no round begins
}

// moved notes that the catalogue has another index.
func (r *rounds) moved(index uint64, now time.Time) {
	r.index, r.explained, r.last = index, false, now
	if r.first.IsZero() {
		r.first = now
	}
}

// named notes that services were named by something with this index.
func (r *rounds) named(index uint64) {
	r.explained = r.explained || index == r.index
}

// lost notes that indexes mean nothing any more: the servers have another history. The round is due at once.
func (r *rounds) lost(now time.Time) {
	r.moved(0, now)
	r.first, r.last = now.Add(-atLatest), now.Add(-atLatest)
}

// done notes the end of a round that began at a time. A change since then asks for another one.
func (r *rounds) done(began, now time.Time) {
	r.next = now.Add(max(between, now.Sub(began)))
	if r.last.After(began) {
		r.first = r.last
	} else {
		r.first = time.Time{}
	}
}

// due returns when a round is, if no more happens; the zero time for none.
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
