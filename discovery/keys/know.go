package keys

import (
	"maps"
	"slices"
	"time"
)

// Times between questions, which are Istio's, and how many URIs are asked. A failure is repeated after a second, then ever
// later.
const (
	refresh    = 20 * time.Minute
	firstRetry = time.Second
	lastRetry  = time.Minute
	MaxURIs    = 1000 // of a mesh; the first ones by name
)

// known is what is known of one key set.
type known struct {
	keys     string // the last good ones, "" for none yet
	fault    string // of the last question, "" for none
	failures int    // since the last good answer
	next     time.Time
}

// Knowledge is what is known of all key sets that policies name. It reads no clock, and is one goroutine's.
type Knowledge struct {
	of      map[string]*known // by URI
	refused int               // URIs beyond MaxURIs
}

// Want sets the URIs that policies name. What is known of others is forgotten; of those that stay, nothing is.
func (k *Knowledge) Want(uris []string, now time.Time) {
	uris = slices.Compact(slices.Sorted(slices.Values(uris)))
	k.refused = max(0, len(uris)-MaxURIs)
	was := k.of
	k.of = make(map[string]*known, len(uris))
	for _, uri := range uris[:min(len(uris), MaxURIs)] {
		if k.of[uri] = was[uri]; k.of[uri] == nil {
			k.of[uri] = &known{next: now}
		}
	}
}

// Next returns the URI to ask next and when that is; "" if there is none.
func (k *Knowledge) Next() (uri string, at time.Time) {
	for _, name := range slices.Sorted(maps.Keys(k.of)) {
		if next := k.of[name].next; uri == "" || next.Before(at) {
			uri, at = name, next
		}
	}
	return uri, at
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

// Keys returns the last good key set of a URI, "" for none.
func (k *Knowledge) Keys(uri string) string {
	if of := k.of[uri]; of != nil {
		return of.keys
	}
	return ""
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
