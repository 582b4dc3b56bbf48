package relay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/lastgood"
)

// The waits for one resource: beyond them an Envoy may serve without it.
const (
	arrivalTime = patience        // from the request; Envoy itself waits for 15 s
	searchTime  = 5 * time.Second // from the first refusal: discovery leaves out what Envoy refuses within some round trips
)

// wants is the set of route tables and endpoints that a starting Envoy has subscribed to and not accepted yet. Envoy waits for each of them,
// but one refused response ends its wait for all others of the type: it would serve without them, while they are on the way.
//
// It is pure. Once all have arrived it keeps nothing.
type wants struct {
	met   bool
	names map[string]map[string]want // by type, then by name
	sent  map[string][]string        // names in responses without an answer, by type and nonce
}

type want struct{ since, refused time.Time }

func (w *wants) request(r lastgood.Request, now time.Time) {
	if w.met || r.Type != lastgood.TypeRoutes && r.Type != lastgood.TypeEndpoints {
		return
	}
	if w.names == nil {
		w.names, w.sent = map[string]map[string]want{}, map[string][]string{}
	}
	of := w.names[r.Type]
	if of == nil {
		of = map[string]want{}
		w.names[r.Type] = of
	}
	for _, name := range r.Subscribe {
		if _, known := of[name]; !known {
			of[name] = want{since: now}
		}
	}
	for _, name := range r.Unsubscribe {
		delete(of, name)
	}
	for name := range r.Versions {
		delete(of, name)
	}
	if r.Nonce == "" {
		return
	}
	key := sentKey(r.Type, r.Nonce)
	for _, name := range w.sent[key] {
		one, wanted := of[name]
		switch {
		case !r.Refused:
			delete(of, name)
		case wanted && one.refused.IsZero():
			one.refused = now
			of[name] = one
		}
	}
	delete(w.sent, key)
}

// response notes which resources a response has, or removes.
func (w *wants) response(typeURL, nonce string, names []string) {
	if !w.met && w.names[typeURL] != nil {
		w.sent[sentKey(typeURL, nonce)] = names
	}
}

// cut notes the end of a stream.
func (w *wants) cut() { clear(w.sent) }

// end ends the wait.
func (w *wants) end() { *w = wants{met: true} }

// missing names what has not arrived in time; empty for nothing.
func (w *wants) missing(now time.Time) string {
	for _, of := range []struct{ typeURL, what string }{{lastgood.TypeEndpoints, "endpoints of"}, {lastgood.TypeRoutes, "route table"}} {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(w.names[of.typeURL])) {
			one := w.names[of.typeURL][name]
			if now.Sub(one.since) < arrivalTime && (one.refused.IsZero() || now.Sub(one.refused) < searchTime) {
				names = append(names, name)
			}
		}
		const told = 3
		if n := len(names) - told; n > 0 {
			names = append(names[:told], fmt.Sprintf("and %d more", n))
		}
		if len(names) > 0 {
			return of.what + " " + strings.Join(names, ", ") + ": not accepted yet"
		}
	}
	return ""
}

func sentKey(typeURL, nonce string) string { return typeURL + "\x00" + nonce }
