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

	isolation *isolation     // of units that the client refuses; nil if it never refused one
	changes   changes        // delta: subscriptions that are not applied yet
	due       *content.Names // names to be answered though their content may be unchanged
	chosen    content.Choice // the last selection
	sent      *content.Set   // the set that Envoy has; nil when that is not known
	greet     bool           // the first wildcard subscription is answered, even without news
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
