package protocol

import (
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// The cost of applying a change grows with the number of names of the subscription. So changes of a long subscription
// are collected until they are a large enough part of it, or some time has passed.
const (
	manyNames    = 1 << 10
	worthwhile   = 8 // changes are applied when they are at least one in this many names
	collectForOf = 2 * time.Microsecond
)

// changes are subscriptions of the delta variant that are not applied yet, in the order of their requests: a client may
// request a thousand names one by one.
type changes struct {
	requests []wish
	on, off  int       // number of names in requests, a name may count twice; on counts one more for each request
	applied  time.Time // when changes were applied last
}

// wish is the names of one request.
type wish struct{ on, off *content.Names } // to subscribe and to unsubscribe

// add adds a request.
func (c *changes) add(subscribe, unsubscribe *content.Names, sh *content.Share) error {
	if subscribe == nil && unsubscribe == nil {
		return nil
	}
	c.requests = append(c.requests, wish{on: subscribe, off: unsubscribe})
	c.on, c.off = c.on+1+subscribe.Len(), c.off+unsubscribe.Len()
	if c.on <= content.MaxNames && c.off <= content.MaxNames {
		return nil
	}
	on, off := replay(c.requests, sh)
	c.requests, c.on, c.off = []wish{{on, off}}, on.Len(), off.Len()
	if c.on > content.MaxNames || c.off > content.MaxNames {
		return content.ErrTooManyNames
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

// fewRequests is the largest number of requests that are merged through the share of all streams.
const fewRequests = 8

// flush returns the names to subscribe and to unsubscribe, and forgets them. Of two requests with one name the later
// counts; of one request both lists.
func (c *changes) flush(sh *content.Share, now time.Time) (on, off *content.Names) {
	if len(c.requests) <= fewRequests {
		for _, r := range c.requests {
			on, off = sh.Merge(on, r.on, r.off), sh.Merge(off, r.off, r.on)
		}
	} else {
		on, off = replay(c.requests, sh)
	}
	*c = changes{applied: now}
	return on, off
}

func replay(requests []wish, sh *content.Share) (on, off *content.Names) {
	type what struct{ on, off bool }
	last := map[string]what{}
	for _, r := range requests {
		for name := range r.on.Stars() {
			last[name] = what{on: true}
		}
		for name := range r.off.Stars() {
			last[name] = what{on: r.on.Has(name) || name == "*" && r.on.Everything(), off: true}
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
	return sh.Interner.With(list[0], star[0]), sh.Interner.With(list[1], star[1])
}
