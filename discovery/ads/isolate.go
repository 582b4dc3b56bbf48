package ads

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"
)

// Limits of the cost of one client's refusals: the number of responses until the client has accepted the rest, and the
// number of units.
const (
	maxTrials  = 64
	maxRefused = 16
)

// instead describes the state that a client has in place of a unit that it refuses.
type instead string

const (
	lastGood  instead = "its last good form"
	answer503 instead = "503 for its domains"
	nothing   instead = "nothing"
	itself    instead = "nothing, or what it had before" // Envoy itself accepts the rest of such a response
)

// refusal is a unit that a client refuses.
type refusal struct {
	instead instead
	text    string
	since   time.Time
}

// isolation finds the units that a client refuses in a response, and no longer sends them to that client. Other clients
// are not affected. It searches an ordered list of units for the shortest refused prefix; units outside of the prefix
// stay as the client has them.
type isolation struct {
	refused map[unit]refusal
	text    string // of the last refusal
	at      time.Time

	order   []unit // the units that are searched; nil when no search goes on
	ok      int    // number of units, from the first, that are accepted
	bad     int    // number of units, from the first, that are refused; len(order)+1 when that is not known
	try     int    // number of units, from the first, in the last response
	confirm unit   // the unit whose stand-in is being tried, together with the accepted units
	trials  int    // since the client last accepted all remaining units
	found   int    // refusals, since the stream began

	applied struct { // the last result
		want, had, got *set
		found, try     int
		searching      bool
	}
}

// begin starts a search among units that the client has not accepted. Units that its error text names come last, so
// that the first trial contains all but those.
func (i *isolation) begin(units []hostUnit, good func(unit) bool) {
	var named []unit
	i.order = make([]unit, 0, len(units))
	quoted := quotedIn(i.text)
	for _, u := range units {
		if u.spokenOf(i.text, quoted) {
			named = append(named, u.unit)
		} else {
			i.order = append(i.order, u.unit)
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
func (i *isolation) answered(accepted bool, good func(unit) bool) {
	i.trials++
	switch {
	case i.confirm != unit{}:
		if !accepted {
			r := i.refused[i.confirm]
			r.instead = nothing
			i.refused[i.confirm] = r
			i.found++
		}
		i.confirm = unit{}
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

// narrow marks a unit as refused when only one is left.
func (i *isolation) narrow(good func(unit) bool) {
	if i.order == nil || i.confirm != (unit{}) || i.bad-i.ok != 1 || i.bad > len(i.order) {
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
	case u.host != "":
		r.instead, i.confirm, i.try = answer503, u, i.ok
	}
	i.refused[u] = r
	i.found++
}

// hopeless reports whether the client refuses too much: it then receives everything, and refuses that.
func (i *isolation) hopeless() bool { return i.trials >= maxTrials || len(i.refused) > maxRefused }

// tried returns the units of the last response that are searched, nil when no search goes on.
func (i *isolation) tried() map[unit]bool {
	if i.order == nil {
		return nil
	}
	tried := make(map[unit]bool, i.try)
	for _, u := range i.order[:i.try] {
		tried[u] = true
	}
	return tried
}

// held reports whether a unit is kept from the client.
func (i *isolation) held(u unit, tried map[unit]bool) (refusal, bool) {
	if r, ok := i.refused[u]; ok {
		return r, r.instead != itself
	}
	return refusal{instead: nothing}, tried != nil && !tried[u]
}

// isolate handles a refusal of k. It reports whether there is now a different response to send.
func (p *protocol) isolate(k kind, text string, now time.Time) bool {
	s := &p.types[k]
	if k == eds || k.asked() || s.sent == nil {
		return false
	}
	if s.isolation == nil {
		s.isolation = &isolation{refused: map[unit]refusal{}}
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
		i.order, i.confirm, i.refused, i.trials = nil, unit{}, map[unit]refusal{}, maxTrials
		return false
	}
	return true
}

// skipTrials continues a search while its next response would be the same as what the client has.
func (p *protocol) skipTrials(k kind) {
	s := &p.types[k]
	for i := s.isolation; i != nil && i.order != nil && !s.pending && !p.behind(k); {
		i.answered(true, s.good(p.share))
	}
}

// partial is the beginning of Envoy's error text when it has accepted all other clusters or listeners of a response.
const partial = "Error adding/updating "

// byItself returns the units that Envoy names in an error after which it accepted all others.
func (s *subscription) byItself(k kind, text string) (list []unit) {
	if !k.whole() || !strings.HasPrefix(text, partial) {
		return nil
	}
	for _, r := range s.sent.all() {
		if r.exists() && strings.Contains(text, r.name+": ") && !sameIn(s.accepted, r) {
			list = append(list, unit{resource: r.name, hash: r.hash})
		}
	}
	return list
}

// candidates are the units of the last response that the client has not accepted.
func (s *subscription) candidates(sh *share) (list []hostUnit) {
	for _, r := range s.sent.all() {
		if !r.exists() || sameIn(s.accepted, r) {
			continue
		}
		d := sh.divide(s.sent.kind, r)
		if d == nil {
			list = append(list, hostUnit{unit{resource: r.name, hash: r.hash}, r.whole()})
			continue
		}
		was := sh.divide(s.sent.kind, s.accepted.find(r.name))
		for _, h := range d.hosts {
			if !was.has(h.unit) {
				list = append(list, h)
			}
		}
	}
	return list
}

func sameIn(s *set, r *resource) bool {
	old := s.find(r.name)
	return old != nil && same(old, r)
}

// good returns a function that reports whether the client has accepted some content for a unit's name.
func (s *subscription) good(sh *share) func(unit) bool {
	return func(u unit) bool {
		old := s.accepted.find(u.resource)
		if old == nil || !old.exists() {
			return false
		}
		return u.host == "" || sh.divide(s.accepted.kind, old).body(u.host) != nil
	}
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

// spokenOf reports whether a refusal names a unit, or quotes a text that is in it.
func (h hostUnit) spokenOf(text string, quoted [][]byte) bool {
	return strings.Contains(text, cmp.Or(h.host, h.resource)) ||
		slices.ContainsFunc(quoted, func(q []byte) bool { return bytes.Contains(h.body, q) })
}
