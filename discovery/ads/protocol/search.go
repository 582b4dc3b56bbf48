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
	refused map[content.Unit]refusal
	text    string // of the last refusal
	at      time.Time

	order   []content.Unit // the units that are searched; nil when no search goes on
	ok      int            // number of units, from the first, that are accepted
	bad     int            // number of units, from the first, that are refused; len(order)+1 when that is not known
	try     int            // number of units, from the first, in the last response
	confirm content.Unit   // the unit whose stand-in is being tried, together with the accepted units
	trials  int            // since the client last accepted all remaining units
	found   int            // refusals, since the stream began

	applied struct { // the last result
		want, had, got *content.Set
		found, try     int
		searching      bool
	}
}

// begin starts a search among units that the client has not accepted. Units that its error text names come last, so
// that the first trial contains all but those.
func (i *isolation) begin(units []content.HostUnit, good func(content.Unit) bool) {
	var named []content.Unit
	i.order = make([]content.Unit, 0, len(units))
	quoted := quotedIn(i.text)
	for _, u := range units {
		if spokenOf(u, i.text, quoted) {
			named = append(named, u.Unit)
		} else {
			i.order = append(i.order, u.Unit)
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
func (i *isolation) answered(accepted bool, good func(content.Unit) bool) {
	i.trials++
	switch {
	case i.confirm != content.Unit{}:
		if !accepted {
			r := i.refused[i.confirm]
			r.instead = nothing
			i.refused[i.confirm] = r
			i.found++
		}
		i.confirm = content.Unit{}
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
func (i *isolation) narrow(good func(content.Unit) bool) {
	if i.order == nil || i.confirm != (content.Unit{}) || i.bad-i.ok != 1 || i.bad > len(i.order) {
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

// tried returns the units of the last response that are searched, nil when no search goes on.
func (i *isolation) tried() map[content.Unit]bool {
	if i.order == nil {
		return nil
	}
	tried := make(map[content.Unit]bool, i.try)
	for _, u := range i.order[:i.try] {
		tried[u] = true
	}
	return tried
}

// held reports whether a unit is kept from the client.
func (i *isolation) held(u content.Unit, tried map[content.Unit]bool) (refusal, bool) {
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

// spokenOf reports whether a refusal names a unit, or quotes a text that is in it.
func spokenOf(h content.HostUnit, text string, quoted [][]byte) bool {
	return strings.Contains(text, cmp.Or(h.Host, h.Resource)) ||
		slices.ContainsFunc(quoted, func(q []byte) bool { return bytes.Contains(h.Body, q) })
}
