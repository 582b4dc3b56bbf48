package ads

import (
	"slices"
	"time"
)

// Applying a change costs as much as a subscription has names, so those of a long one are collected: until they are a part
// of it that is worth that, or some time has passed.
const (
	manyNames    = 1 << 10
	worthwhile   = 8 // one in so many names
	collectForOf = 2 * time.Microsecond
)

// changes are subscriptions of the delta variant that are not applied yet, in the order of their requests: a client may ask
// for a thousand names one by one.
type changes struct {
	requests []merging // add and drop
	on, off  int       // how many names they have, some twice
	applied  time.Time // when there was a list of changes the last time
}

// add adds a request.
func (c *changes) add(subscribe, unsubscribe *names, sh *share) error {
	if subscribe == nil && unsubscribe == nil {
		return nil
	}
	c.requests = append(c.requests, merging{add: subscribe, drop: unsubscribe})
	c.on, c.off = c.on+1+subscribe.len(), c.off+unsubscribe.len()
	if c.on <= maxNames && c.off <= maxNames {
		return nil
	}
	on, off := replay(c.requests, sh)
	c.requests, c.on, c.off = []merging{{add: on, drop: off}}, on.len(), off.len()
	if c.on > maxNames || c.off > maxNames {
		return errTooManyNames
	}
	return nil
}

// applyAfter returns the time after which the changes of a subscription to n names should be applied.
func (c *changes) applyAfter(n int) time.Time {
	if n < manyNames || c.on+c.off >= n/worthwhile {
		return time.Time{}
	}
	return c.applied.Add(time.Duration(n) * collectForOf)
}

// fewRequests is up to how many requests are merged by what all streams share.
const fewRequests = 8

// flush returns the names to subscribe and to unsubscribe, and forgets them. Of two requests with one name the later
// counts; of one request both lists.
func (c *changes) flush(sh *share, now time.Time) (on, off *names) {
	if len(c.requests) <= fewRequests {
		for _, r := range c.requests {
			on, off = sh.merge(on, r.add, r.drop), sh.merge(off, r.drop, r.add)
		}
	} else {
		on, off = replay(c.requests, sh)
	}
	*c = changes{applied: now}
	return on, off
}

func replay(requests []merging, sh *share) (on, off *names) {
	type what struct{ on, off bool }
	last := map[string]what{}
	for _, r := range requests {
		for name := range r.add.stars() {
			last[name] = what{on: true}
		}
		for name := range r.drop.stars() {
			last[name] = what{on: r.add.has(name) || name == "*" && r.add.everything(), off: true}
		}
	}
	var list [2][]string
	var star [2]bool
	for name, w := range last {
		for i, is := range []bool{w.on, w.off} {
			switch {
			case is && name == "*":
				star[i] = true
			case is:
				list[i] = append(list[i], name)
			}
		}
	}
	slices.Sort(list[0])
	slices.Sort(list[1])
	return sh.interner.with(list[0], star[0]), sh.interner.with(list[1], star[1])
}

func (s *subscription) hasChanges() bool { return len(s.changes.requests) > 0 }

// mayApply reports whether changes that came may be applied now: not while a response has no answer, since what is due
// then would be told twice.
func (s *subscription) mayApply(now time.Time) bool {
	return s.hasChanges() && !s.pending && !now.Before(s.changes.applyAfter(s.names.len()))
}

// apply brings the changes of a delta subscription into effect. A name that is subscribed again is answered again; one
// that is unsubscribed while everything is wanted is answered with what it is without that; one that never was
// subscribed is ignored.
func (s *subscription) apply(k kind, sh *share, now time.Time) error {
	if !s.hasChanges() {
		return nil
	}
	on, off := s.changes.flush(sh, now)
	if k.whole() && on.everything() {
		s.wildcard, s.sent = true, nil
	} else if off.everything() {
		s.wildcard = false
	}
	if s.sent != nil { // else everything is sent anyway
		s.becomeDue(sh, on)
		if s.wildcard {
			s.becomeDue(sh, sh.common(s.names, off))
		}
	}
	s.names = sh.merge(s.names, on, off).named(sh)
	if s.names.len() > maxNames {
		return errTooManyNames
	}
	s.shrink(sh)
	return nil
}
