package ads

import (
	"maps"
	"slices"
	"time"
)

// subscription is the state of one kind on one stream.
type subscription struct {
	asked    bool     // a request of this kind has come
	named    bool     // a request has listed names, so that an empty list no longer means everything
	wildcard bool     // everything is wanted; only of a kind that is whole
	names    []string // what is wanted by name, sorted, whether it exists or not

	due  map[string]bool // names to be answered though their content may be unchanged
	sent *set            // what Envoy was sent for all its names; nil when that is not known
	// rewarmed says that clusters of unknown content were replaced before endpoints were first asked for, so that
	// the version which Envoy names proves nothing.
	rewarmed bool

	nonce   string // of the last response, "" before the first
	pending bool   // that response has no answer yet
	nacked  bool   // its answer was a NACK
	version string // sent last
	acked   string // accepted last
	nack    *Nack  // the last one on this stream
}

// subscribe takes the names of a request. New names become due, even at an unchanged version; names that are gone
// are forgotten without an answer.
func (s *subscription) subscribe(k kind, wanted []string) {
	names := slices.Compact(slices.Sorted(slices.Values(wanted)))
	wildcard := k.whole() && (slices.Contains(names, "*") || len(names) == 0 && !s.named)
	names = slices.DeleteFunc(names, func(name string) bool { return name == "*" })
	s.named = s.named || len(wanted) > 0
	if wildcard == s.wildcard && slices.Equal(names, s.names) {
		return
	}
	added := map[string]bool{}
	for _, name := range names {
		if s.due[name] || !s.has(name) {
			added[name] = true
		}
	}
	if wildcard && !s.wildcard {
		added["*"] = true
	}
	s.due, s.names, s.wildcard = added, names, wildcard
	if k.whole() && s.sent != nil {
		s.sent = s.wanted(k, s.sent) // a shrunk list is not answered
	}
}

func (s *subscription) has(name string) bool {
	_, ok := slices.BinarySearch(s.names, name)
	return ok
}

// wanted returns what is subscribed of all. Of a kind that is not whole it is all, which no stream copies.
func (s *subscription) wanted(k kind, all *set) *set {
	if s.wildcard || !k.whole() {
		return all
	}
	return all.only(s.has)
}

// versionOf is the version of what is subscribed of all. Of a kind that is not whole it counts the names that do not
// exist: an Envoy that reconnects could otherwise name it without ever having had a name that it added since.
func (s *subscription) versionOf(k kind, all *set) string {
	if k.whole() {
		return s.wanted(k, all).version
	}
	v := newVersion()
	for _, name := range s.names {
		v.add(name, all.find(name))
	}
	return v.String()
}

// news returns the resources that bring Envoy to want, nil when it needs no response.
func (s *subscription) news(k kind, want *set) []*resource {
	switch {
	case s.sent == want && len(s.due) == 0:
		return nil
	case !k.whole():
		return s.changed(k, want)
	case s.sent != nil && s.sent.version == want.version && len(s.due) == 0:
		return nil
	}
	return want.resources
}

// changed returns what Envoy must be told of a kind that is not whole. What vanished is not told: it goes with the
// cluster or listener that named it.
func (s *subscription) changed(k kind, want *set) []*resource {
	var out []*resource
	for _, name := range s.names {
		r := want.find(name)
		switch {
		case s.sent == nil || s.due[name]:
			if r == nil {
				r = k.empty(name)
			}
			out = append(out, r)
		case r != nil && !same(r, s.sent.find(name)):
			out = append(out, r)
		}
	}
	return out
}

// answered takes Envoy's answer to the last response. A NACK is a request with an error, never one with an old
// version; what follows it under the same nonce is no ACK.
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
		s.nacked, s.acked = false, s.version
	}
	return nil
}

// rewarm makes the endpoints of changed clusters due: Envoy asks for them with a request that looks like an ACK.
func (s *subscription) rewarm(old, clusters *set) {
	if old == nil {
		s.sent, s.rewarmed = nil, true
		return
	}
	due := maps.Clone(s.due)
	for _, r := range clusters.resources {
		if s.has(r.name) && !same(r, old.find(r.name)) {
			if due == nil {
				due = map[string]bool{}
			}
			due[r.name] = true
		}
	}
	s.due = due
}
