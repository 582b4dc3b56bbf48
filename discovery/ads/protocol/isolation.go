package protocol

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// isolate handles a refusal of k. It reports whether there is now a different response to send.
func (p *Session) isolate(k content.Kind, text string, now time.Time) bool {
	s := &p.types[k]
	if k == content.EDS || k.Asked() || s.sent == nil {
		return false
	}
	if s.isolation == nil {
		s.isolation = &isolation{refused: map[content.ResourceID]refusal{}}
	}
	i := s.isolation
	i.text, i.at = text, now
	if i.order != nil {
		i.answered(false, s.good(p.share))
	} else if list := s.byItself(k, text); list != nil {
		for _, u := range list {
			if _, known := i.refused[u]; !known {
				i.refused[u] = refusal{instead: itself, text: text, since: now}
				i.found++
			}
		}
		return false
	} else {
		i.begin(s.candidates(p.share), s.good(p.share))
	}
	if i.hopeless() {
		i.order, i.confirm, i.refused, i.trials = nil, content.ResourceID{}, map[content.ResourceID]refusal{}, maxTrials
		return false
	}
	return true
}

// skipTrials continues a search while its next response would be the same as what the client has.
func (p *Session) skipTrials(k content.Kind) {
	s := &p.types[k]
	for i := s.isolation; i != nil && i.order != nil && !s.pending && !p.behind(k); {
		i.answered(true, s.good(p.share))
	}
}

// answered applies Envoy's ACK or NACK of the last response of k.
func (p *Session) answered(k content.Kind, refusal string, now time.Time) *Nack {
	s, references := &p.types[k], &p.references[k]
	waited := s.pending
	nack := s.answered(refusal, now)
	if waited {
		switch i := s.isolation; {
		case nack != nil && p.isolate(k, refusal, now):
			s.sent, s.due = s.accepted, nil // it may have applied nothing of a refused response: that is sent again
		case nack == nil && i != nil && i.order != nil:
			i.answered(true, s.good(p.share))
		case nack == nil && i != nil:
			i.trials = 0
		}
		references.answered = references.sent
		if nack == nil {
			references.accepted = references.sent
		}
	}
	return nack
}

func (i *isolation) list() (out []Refused) {
	if i == nil {
		return nil
	}
	for u, r := range i.refused {
		out = append(out, Refused{u.Resource, u.Host, string(r.instead), r.text, r.since})
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Host, b.Host)) < 0
	})
	return out
}

// Limits of the cost of one client's refusals: the number of responses until the client has accepted the rest, and the
// number of resources and virtual hosts.
const (
	maxTrials  = 64
	maxRefused = 16
)

// instead describes the state that a client has in place of a resource that it refuses.
type instead string

const (
	lastGood  instead = "its last good form"
	answer503 instead = "503 for its domains"
	nothing   instead = "nothing"
	itself    instead = "nothing, or what it had before" // Envoy itself accepts the rest of such a response
)

// refusal is a resource that a client refuses.
type refusal struct {
	instead instead
	text    string
	since   time.Time
}

// isolation finds the resources and virtual hosts that a client refuses in a response, and no longer sends them to it.
// Others are not affected. It searches an ordered list of resources for the shortest refused prefix; resources outside
// of the prefix stay as the client has them.
type isolation struct {
	refused map[content.ResourceID]refusal
	text    string // of the last refusal
	at      time.Time

	order   []content.ResourceID // the resources that are searched; nil when no search goes on
	ok      int                  // number of resources, from the first, that are accepted
	bad     int                  // number of resources, from the first, that are refused; len(order)+1 when that is not known
	try     int                  // number of resources, from the first, in the last response
	confirm content.ResourceID   // the resource whose stand-in is being tried, together with the accepted resources
	trials  int                  // since the client last accepted all remaining resources
	found   int                  // refusals, since the stream began

	applied struct { // the last result
		want, had, got *content.Set
		found, try     int
		searching      bool
	}
}

// begin starts a search among resources that the client has not accepted. Units that its error text names come last, so
// that the first trial contains all but those.
func (i *isolation) begin(units []content.Body, good func(content.ResourceID) bool) {
	var named []content.ResourceID
	i.order = make([]content.ResourceID, 0, len(units))
	quoted := quotedIn(i.text)
	for _, u := range units {
		if isNamed(u, i.text, quoted) {
			named = append(named, u.ResourceID)
		} else {
			i.order = append(i.order, u.ResourceID)
		}
	}
	i.ok, i.bad, i.try = 0, len(units), len(i.order)
	i.order = append(i.order, named...)
	if i.try == 0 || i.try == i.bad {
		i.try = i.bad / 2
	}
	i.narrow(good)
}

// answered applies the client's answer to a trial.
func (i *isolation) answered(accepted bool, good func(content.ResourceID) bool) {
	i.trials++
	switch {
	case i.confirm != content.ResourceID{}:
		if !accepted {
			r := i.refused[i.confirm]
			r.instead = nothing
			i.refused[i.confirm] = r
			i.found++
		}
		i.confirm = content.ResourceID{}
		i.bad, i.try = len(i.order)+1, len(i.order)
	case accepted && i.try == len(i.order):
		i.order, i.trials = nil, 0
	case accepted:
		i.ok = i.try
		i.try = (i.ok + i.bad) / 2
	default:
		i.bad = i.try
		i.try = (i.ok + i.bad) / 2
	}
	i.narrow(good)
}

// narrow marks a resource as refused when only one is left.
func (i *isolation) narrow(good func(content.ResourceID) bool) {
	if i.order == nil || i.confirm != (content.ResourceID{}) || i.bad-i.ok != 1 || i.bad > len(i.order) {
		if i.order != nil && i.bad > len(i.order) {
			i.try = len(i.order)
		}
		return
	}
	u := i.order[i.bad-1]
	i.order = slices.Delete(i.order, i.bad-1, i.bad)
	i.bad, i.try = len(i.order)+1, len(i.order)
	r := refusal{instead: nothing, text: i.text, since: i.at}
	switch {
	case good(u):
		r.instead = lastGood
	case u.Host != "":
		r.instead, i.confirm, i.try = answer503, u, i.ok
	}
	i.refused[u] = r
	i.found++
}

// hopeless reports whether the client refuses too much: it then receives everything, and refuses that.
func (i *isolation) hopeless() bool { return i.trials >= maxTrials || len(i.refused) > maxRefused }

// tried returns the resources of the last response that are searched, nil when no search goes on.
func (i *isolation) tried() map[content.ResourceID]bool {
	if i.order == nil {
		return nil
	}
	tried := make(map[content.ResourceID]bool, i.try)
	for _, u := range i.order[:i.try] {
		tried[u] = true
	}
	return tried
}

// held reports whether a resource is kept from the client.
func (i *isolation) held(u content.ResourceID, tried map[content.ResourceID]bool) (refusal, bool) {
	if r, ok := i.refused[u]; ok {
		return r, r.instead != itself
	}
	return refusal{instead: nothing}, tried != nil && !tried[u]
}

// quotedIn returns the texts between quotation marks.
func quotedIn(text string) (quoted [][]byte) {
	for n, part := range strings.Split(text, "'") {
		if n%2 == 1 && len(part) > 2 {
			quoted = append(quoted, []byte(part))
		}
	}
	return quoted
}

// isNamed reports whether a refusal names a resource, or quotes a text that is in it.
func isNamed(h content.Body, text string, quoted [][]byte) bool {
	return strings.Contains(text, cmp.Or(h.Host, h.Resource)) ||
		slices.ContainsFunc(quoted, func(q []byte) bool { return bytes.Contains(h.Bytes, q) })
}

// withheld returns want without the resources that the client refuses.
func (s *subscription) withheld(want *content.Set, sh *content.Share) *content.Set {
	i := s.isolation
	if i == nil || i.order == nil && len(i.refused) == 0 {
		return want
	}
	a := &i.applied
	if a.want == want && a.had == s.accepted && a.found == i.found && a.try == i.try && a.searching == s.searching() {
		return a.got
	}
	a.want, a.had, a.found, a.try, a.searching = want, s.accepted, i.found, i.try, s.searching()
	a.got = i.apply(s, want, sh)
	return a.got
}

func (i *isolation) apply(s *subscription, want *content.Set, sh *content.Share) *content.Set {
	list := make([]*content.Resource, 0, want.Size())
	changed, asAccepted := false, s.accepted != nil && s.accepted.Size() == want.Size()
	there, tried := map[content.ResourceID]bool{}, i.tried()
	for _, r := range want.All() {
		made := r
		if r.Exists() && !sameIn(s.accepted, r) {
			if made = i.rewrite(s.accepted, r, want.Kind, sh, there, tried); made == nil {
				changed, asAccepted = true, false
				continue
			}
		}
		changed = changed || made != r
		asAccepted = asAccepted && sameIn(s.accepted, made)
		list = append(list, made)
	}
	for u := range i.refused { // with another content it is another ID
		if !there[u] {
			delete(i.refused, u)
		}
	}
	switch {
	case !changed:
		return want
	case asAccepted:
		return s.accepted
	}
	return content.SetOf(want.Kind, list)
}

// rewrite returns the resource as the client should have it, nil for none. It records in there which refused resources
// exist.
func (i *isolation) rewrite(accepted *content.Set, r *content.Resource, k content.Kind, sh *content.Share, there, tried map[content.ResourceID]bool) *content.Resource {
	d, old := sh.VirtualHosts(k, r), accepted.Find(r.Name)
	if d == nil {
		u := r.ID()
		there[u] = true
		switch _, held := i.held(u, tried); {
		case !held:
			return r
		case old != nil && old.Exists():
			return old
		}
		return nil
	}
	was := sh.VirtualHosts(k, old)
	bodies, whole := make([][]byte, 0, len(d.Hosts)), true
	for _, h := range d.Hosts {
		there[h.ResourceID] = true
		refused, held := i.held(h.ResourceID, tried)
		if !held || was.Has(h.ResourceID) {
			bodies = append(bodies, h.Bytes)
			continue
		}
		whole = false
		body := was.Find(h.Host)
		if body == nil && refused.instead == answer503 {
			body = content.StandIn(h.Bytes)
		}
		if body != nil {
			bodies = append(bodies, body)
		}
	}
	if whole {
		return r
	}
	return sh.Rewrite(r, d, bodies)
}

// searching reports whether a search for the refused resources is going on.
func (s *subscription) searching() bool { return s.isolation != nil && s.isolation.order != nil }

// partial is the beginning of Envoy's error text when it has accepted all other clusters or listeners of a response.
const partial = "Error adding/updating "

// byItself returns the resources that Envoy names in an error after which it accepted all others.
func (s *subscription) byItself(k content.Kind, text string) (list []content.ResourceID) {
	if !k.Whole() || !strings.HasPrefix(text, partial) {
		return nil
	}
	for _, r := range s.sent.All() {
		if r.Exists() && strings.Contains(text, r.Name+": ") && !sameIn(s.accepted, r) {
			list = append(list, r.ID())
		}
	}
	return list
}

// candidates are the resources of the last response that the client has not accepted.
func (s *subscription) candidates(sh *content.Share) (list []content.Body) {
	for _, r := range s.sent.All() {
		if !r.Exists() || sameIn(s.accepted, r) {
			continue
		}
		d := sh.VirtualHosts(s.sent.Kind, r)
		if d == nil {
			list = append(list, content.Body{ResourceID: r.ID(), Bytes: r.Whole()})
			continue
		}
		was := sh.VirtualHosts(s.sent.Kind, s.accepted.Find(r.Name))
		for _, h := range d.Hosts {
			if !was.Has(h.ResourceID) {
				list = append(list, h)
			}
		}
	}
	return list
}

func sameIn(s *content.Set, r *content.Resource) bool {
	old := s.Find(r.Name)
	return old != nil && content.Same(old, r)
}

// good returns a function that reports whether the client has accepted some content for a resource's name.
func (s *subscription) good(sh *content.Share) func(content.ResourceID) bool {
	return func(u content.ResourceID) bool {
		old := s.accepted.Find(u.Resource)
		if old == nil || !old.Exists() {
			return false
		}
		return u.Host == "" || sh.VirtualHosts(s.accepted.Kind, old).Find(u.Host) != nil
	}
}
