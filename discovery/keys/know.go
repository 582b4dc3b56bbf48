package keys

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Times between questions, which are Istio's, and how much is asked. A failure is repeated after a second, then ever later.
const (
	refresh    = 20 * time.Minute
	firstRetry = time.Second
	lastRetry  = time.Minute
	MaxURIs    = 1000 // of a mesh; first those whose keys are known, then by name

	maxAsked   = 128          // questions at a time
	maxFailing = maxAsked / 2 // of those, about URIs whose last question failed: silent servers delay no others
)

// known is what is known of one key set.
type known struct {
	timeout  time.Duration // of a question
	keys     string        // the last good ones, "" for none yet
	fault    string        // of the last question, "" for none
	failures int           // since the last good answer
	next     time.Time
	asked    bool // a question is under way
}

// Knowledge is what is known of all key sets that policies name. It reads no clock, and is one goroutine's.
type Knowledge struct {
	of      map[string]*known // by URI
	refused []string          // URIs beyond MaxURIs
	asked   int               // questions under way,
	failing int               // and those of them that repeat one that failed
}

// Want sets the URIs that policies name. What is known of others is forgotten; of those that stay, nothing is, and no URI that
// is new takes the place of one whose keys are known.
func (k *Knowledge) Want(all []model.KeyAddress, now time.Time) {
	was := k.of
	late := func(a model.KeyAddress) int {
		if of := was[a.URI]; a.Known || of != nil && of.keys != "" {
			return 0
		}
		return 1
	}
	all = slices.Clone(all)
	sort.Slice(all, func(i, j int) bool {
		return cmp.Or(cmp.Compare(late(all[i]), late(all[j])), cmp.Compare(all[i].URI, all[j].URI)) < 0
	})
	all = slices.CompactFunc(all, func(a, b model.KeyAddress) bool { return a.URI == b.URI })
	k.of, k.refused = make(map[string]*known, len(all)), nil
	for i, a := range all {
		if i >= MaxURIs {
			k.refused = append(k.refused, a.URI)
			continue
		}
		if k.of[a.URI] = was[a.URI]; k.of[a.URI] == nil {
			k.of[a.URI] = &known{next: now}
			if a.Known {
				k.of[a.URI].next = now.Add(-time.Second) // somebody uses them
			}
		}
		k.of[a.URI].timeout = a.Timeout
	}
}

// Next returns the URI to ask next, of those about which no question is under way, and when that is; "" if there is none, or if
// an answer must come first.
func (k *Knowledge) Next() (uri string, at time.Time) {
	if k.asked >= maxAsked {
		return "", at
	}
	for name, of := range k.of {
		if of.asked || of.failures > 0 && k.failing >= maxFailing {
			continue
		}
		if uri == "" || cmp.Or(of.next.Compare(at), cmp.Compare(name, uri)) < 0 {
			uri, at = name, of.next
		}
	}
	return uri, at
}

// Ask records that a question about a URI begins.
func (k *Knowledge) Ask(uri string) Question {
	of := k.of[uri]
	q := Question{URI: uri, Timeout: of.timeout, again: of.failures > 0}
	of.asked = true
	k.asked++
	if q.again {
		k.failing++
	}
	return q
}

// Question is one that is under way.
type Question struct {
	URI     string
	Timeout time.Duration
	again   bool // the last one failed
}

// End records that a question has ended.
func (k *Knowledge) End(q Question) {
	k.asked--
	if q.again {
		k.failing--
	}
	if of := k.of[q.URI]; of != nil {
		of.asked = false
	}
}

// Learn takes the answer to a question that ended at now, and reports whether other keys are served since. An answer that is an
// error changes nothing of what is served.
func (k *Knowledge) Learn(uri, keys string, err error, now time.Time) (changed bool) {
	of := k.of[uri]
	switch {
	case of == nil: // nobody names it any more
		return false
	case err != nil:
		pause := lastRetry
		if of.failures < 6 {
			pause = firstRetry << of.failures
		}
		of.failures, of.fault, of.next = of.failures+1, err.Error(), now.Add(min(pause, lastRetry))
		return false
	}
	changed = of.keys != keys
	of.keys, of.fault, of.failures, of.next = keys, "", 0, now.Add(refresh)
	return changed
}

// Faults returns why the last question about each URI failed, by URI.
func (k *Knowledge) Faults() map[string]string {
	out := map[string]string{}
	for uri, of := range k.of {
		if of.fault != "" {
			out[uri] = of.fault
		}
	}
	return out
}
