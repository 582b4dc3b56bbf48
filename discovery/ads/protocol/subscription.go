package protocol

import (
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// subscription is the state of one kind on one stream. Everything large in it is shared with other streams.
type subscription struct {
	asked    bool           // a request of this kind has come
	named    bool           // a request has listed names, so that an empty list no longer means everything
	wildcard bool           // everything is wanted; only of a kind that is whole
	names    *content.Names // the names that are subscribed, whether they exist or not

	isolation *isolation     // of resources that the client refuses; nil if it never refused one
	changes   changes        // delta: subscriptions that are not applied yet
	due       *content.Names // names to be answered though their content may be unchanged
	chosen    content.Choice // the last selection
	sent      *content.Set   // the set that Envoy has; nil when that is not known
	greet     bool           // the first wildcard subscription is answered, even without changes
	// rewarmed means that clusters of unknown content were replaced before endpoints were first requested, so that the
	// endpoints that Envoy reports to have may be incomplete.
	rewarmed bool

	nonce    string       // of the last response, "" before the first
	pending  bool         // that response has no answer yet
	at       time.Time    // when it was sent
	since    time.Time    // when the oldest response without an answer was sent
	again    bool         // it was sent while another had no answer
	accepted *content.Set // the set that Envoy had when it accepted a response last; nil when that is not known
	nacked   bool         // its answer was a NACK
	version  string       // sent last
	acked    string       // accepted last
	nack     *Nack        // the last one on this stream
}

// replace sets the names from a request of the state of the world. New names are due, even at an unchanged version;
// names that the request no longer lists are dropped without an answer.
func (s *subscription) replace(k content.Kind, n *content.Names, sh *content.Share) {
	wildcard := k.Whole() && (n.Everything() || n == nil && !s.named)
	s.named = s.named || n != nil
	if n.Len() == 0 {
		n = nil
	}
	if wildcard == s.wildcard && n == s.names {
		return
	}
	if wildcard {
		var added []string
		for _, name := range n.All() {
			if !s.names.Has(name) {
				added = append(added, name)
			}
		}
		s.becomeDue(sh, sh.Interner.Of(added))
	}
	if wildcard && !s.wildcard {
		s.sent = nil
	}
	s.names, s.wildcard = n, wildcard
	s.shrink(sh)
}

// forget resets the state once nothing is subscribed any more: clients then drop nonce and version, and never answer a
// response that crosses their request.
func (s *subscription) forget() { s.nonce, s.pending = "", false }

// shrink drops the state of names that Envoy no longer subscribes to.
func (s *subscription) shrink(sh *content.Share) {
	if !s.wildcard && s.sent != nil {
		s.sent = sh.Keep(s.sent, s.names)
	}
}

func (s *subscription) becomeDue(sh *content.Share, added *content.Names) {
	if added.Len() > 0 {
		s.due = sh.Merge(s.due, added, nil)
	}
}

// wanted returns the resources of all that are subscribed.
func (s *subscription) wanted(all *content.Set, sh *content.Share) *content.Set {
	if s.wildcard {
		return all
	}
	s.chosen = sh.Choose(all, s.names, s.chosen)
	return s.chosen.Got
}

// answered applies Envoy's answer to the last response. A NACK is a request with an error, never one with an old
// version; a later request with the same nonce is no ACK.
func (s *subscription) answered(refusal string, now time.Time) *Nack {
	if s.nonce == "" {
		return nil // an answer to an earlier stream
	}
	waiting := s.pending
	s.pending = false
	if refusal != "" {
		s.nacked, s.nack = true, &Nack{Text: refusal, Version: s.version, Time: now}
		return s.nack
	}
	if waiting {
		s.nacked, s.acked, s.accepted = false, s.version, s.sent
	}
	return nil
}

// waits reports whether the response before those is still the last one, without an answer.
func (s *subscription) waits(responses []Response, k content.Kind) bool {
	return s.pending && !slices.ContainsFunc(responses, func(r Response) bool { return r.Kind == k })
}

// rewarm makes the endpoints of changed clusters due: Envoy asks for them with a request that looks like an ACK, or not
// at all.
func (s *subscription) rewarm(old, clusters *content.Set, sh *content.Share) {
	if old == nil {
		s.sent, s.rewarmed = nil, true
		return
	}
	s.becomeDue(sh, sh.ChangedNames(old, clusters))
}

func (s *subscription) hasChanges() bool { return len(s.changes.requests) > 0 }

// mayApply reports whether received changes may be applied now. While a response has no answer they may not, since
// names that are due would be sent twice.
func (s *subscription) mayApply(now time.Time) bool {
	return s.hasChanges() && !s.pending && !now.Before(s.changes.applyAfter(s.names.Len()))
}

// apply brings the changes of a delta subscription into effect. A name that is subscribed again is answered again. A
// name that is unsubscribed under a wildcard subscription is answered with its state under the wildcard. A name that
// never was subscribed is ignored.
func (s *subscription) apply(k content.Kind, sh *content.Share, now time.Time) error {
	if !s.hasChanges() {
		return nil
	}
	on, off := s.changes.flush(sh, now)
	if k.Whole() && on.Everything() {
		s.wildcard, s.sent = true, nil
	} else if off.Everything() {
		s.wildcard = false
	}
	if s.sent != nil { // else everything is sent anyway
		s.becomeDue(sh, on)
		if s.wildcard {
			s.becomeDue(sh, sh.Common(s.names, off))
		}
	}
	s.names = sh.Named(sh.Merge(s.names, on, off))
	if s.names.Len() > content.MaxNames {
		return content.ErrTooManyNames
	}
	s.shrink(sh)
	return nil
}

// Patience is how long a response waits for an answer that Envoy may withhold. Envoy answers for clusters when they are
// warm, and a cluster may warm for ever.
const Patience = time.Second

// overdue reports whether the last response has had no answer for so long that nothing should wait for it any more.
func (s *subscription) overdue(now time.Time) bool { return s.pending && now.Sub(s.at) >= Patience }

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
	requests []subscriptionChange
	on, off  int       // number of names in requests, a name may count twice; on counts one more for each request
	applied  time.Time // when changes were applied last
}

// subscriptionChange is the names of one request.
type subscriptionChange struct{ on, off *content.Names } // to subscribe and to unsubscribe

// add adds a request.
func (c *changes) add(subscribe, unsubscribe *content.Names, sh *content.Share) error {
	if subscribe == nil && unsubscribe == nil {
		return nil
	}
	c.requests = append(c.requests, subscriptionChange{on: subscribe, off: unsubscribe})
	c.on, c.off = c.on+1+subscribe.Len(), c.off+unsubscribe.Len()
	if c.on <= content.MaxNames && c.off <= content.MaxNames {
		return nil
	}
	on, off := replay(c.requests, sh)
	c.requests, c.on, c.off = []subscriptionChange{{on, off}}, on.Len(), off.Len()
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

func replay(requests []subscriptionChange, sh *content.Share) (on, off *content.Names) {
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
