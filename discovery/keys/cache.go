package keys

import (
	"cmp"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Times between questions, which are Istio's, and how much is asked. A failure is repeated after a second, then ever
// later.
const (
	refresh    = 20 * time.Minute
	firstRetry = time.Second
	lastRetry  = time.Minute
	MaxURIs    = 1000 // of a mesh: the root namespace's first, the rest is shared evenly between namespaces
	maxAsked   = 144  // questions at a time
	reserved   = 16   // of these, for namespaces that have none under way
)

// cached is what is known of one key set.
type cached struct {
	named    []string      // the namespaces whose policies name it
	timeout  time.Duration // of a question: the longest that these give
	keys     string        // the last good ones, "" for none yet
	fault    string        // of the last question, "" for none
	failures int           // since the last good answer
	next     time.Time
	asked    bool // a question is under way
}

// Cache is what is known of all key sets that policies name. It reads no clock, and is one goroutine's.
type Cache struct {
	of      map[string]*cached // by URI
	refused []model.KeyAddress // those beyond MaxURIs
	asked   int                // questions under way,
	asking  map[string]int     // and these by namespace
}

// Want sets the URIs that policies name. What is known of others is forgotten; of those that stay, nothing is.
// Namespaces take places in turn, each first for URIs whose keys are known, so that none keeps another from its share.
// A URI that several namespaces name has one place.
func (k *Cache) Want(all []model.KeyAddress, now time.Time) {
	was := k.of
	late := func(a model.KeyAddress) int {
		if of := was[a.URI]; a.Known || of != nil && of.keys != "" {
			return 0
		}
		return 1
	}
	k.of, k.refused = make(map[string]*cached, len(all)), nil
	for _, a := range inTurn(all, late) {
		of := k.of[a.URI]
		switch {
		case of != nil:
		case len(k.of) >= MaxURIs:
			k.refused = append(k.refused, a)
			continue
		default:
			if of = was[a.URI]; of == nil {
				of = &cached{next: now}
				if a.Known {
					of.next = now.Add(-time.Second) // somebody uses them
				}
			}
			k.of[a.URI], of.named, of.timeout = of, nil, 0
		}
		of.named, of.timeout = append(of.named, a.Namespace), max(of.timeout, a.Timeout)
	}
}

// inTurn orders addresses: the root namespace's first, then one of each namespace, then another of each.
func inTurn(all []model.KeyAddress, late func(model.KeyAddress) int) []model.KeyAddress {
	all = slices.SortedFunc(slices.Values(all), func(a, b model.KeyAddress) int {
		return cmp.Or(cmp.Compare(late(a), late(b)), cmp.Compare(a.URI, b.URI), cmp.Compare(a.Namespace, b.Namespace))
	})
	turns, had := map[model.KeyAddress]int{}, map[string]int{}
	for _, a := range all {
		if had[a.Namespace]++; !a.Root {
			turns[a] = had[a.Namespace]
		}
	}
	slices.SortStableFunc(all, func(a, b model.KeyAddress) int { return cmp.Compare(turns[a], turns[b]) })
	return all
}

// Next returns the URI to ask next, of those about which no question is under way, and when that is; "" if there is
// none, or if an answer must come first. Of those that are due it is one of the namespace with the fewest questions
// under way. A namespace with some has at most three times as many as places are free, and repeats failed ones only
// while it has fewer than that: silent servers delay no other namespace, and their own a little.
func (k *Cache) Next(now time.Time) (uri string, at time.Time) {
	if k.asked >= maxAsked {
		return "", at
	}
	free, least := maxAsked-reserved-k.asked, 0
	for name, of := range k.of {
		room := 3 * free
		if of.failures > 0 {
			room = free
		}
		own := k.asking[k.payer(of)]
		if of.asked || own > 0 && own >= room {
			continue
		}
		if uri == "" || cmp.Or(later(of.next, now).Compare(later(at, now)), cmp.Compare(own, least), of.next.Compare(at), cmp.Compare(name, uri)) < 0 {
			uri, at, least = name, of.next, own
		}
	}
	return uri, at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// payer returns the namespace for which a URI is asked: of those that name it the one with the fewest questions under
// way.
func (k *Cache) payer(of *cached) string {
	return slices.MinFunc(of.named, func(a, b string) int { return cmp.Compare(k.asking[a], k.asking[b]) })
}

// Ask records that a question about a URI begins.
func (k *Cache) Ask(uri string) Question {
	of := k.of[uri]
	q := Question{URI: uri, Timeout: of.timeout, namespace: k.payer(of)}
	if of.asked = true; k.asking == nil {
		k.asking = map[string]int{}
	}
	k.asked++
	k.asking[q.namespace]++
	return q
}

// Question is one that is under way.
type Question struct {
	URI       string
	Timeout   time.Duration
	namespace string // for which it is asked
}

// End records that a question has ended.
func (k *Cache) End(q Question) {
	k.asked--
	if k.asking[q.namespace]--; k.asking[q.namespace] == 0 {
		delete(k.asking, q.namespace)
	}
	if of := k.of[q.URI]; of != nil {
		of.asked = false
	}
}

// Learn takes the answer to a question that ended at now, and reports whether other keys are served since. An answer
// that is an error changes nothing of what is served.
func (k *Cache) Learn(uri, keys string, err error, now time.Time) (changed bool) {
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
func (k *Cache) Faults() map[string]string {
	out := map[string]string{}
	for uri, of := range k.of {
		if of.fault != "" {
			out[uri] = of.fault
		}
	}
	return out
}
