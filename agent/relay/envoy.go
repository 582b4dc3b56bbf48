package relay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/lastgood"
)

// mostEnvoys is how many processes are known at a time.
const mostEnvoys = 8

// patience is how long an Envoy waits for a type before it goes on without: then it has all that it gets.
const patience = 20 * time.Second

// State is one Envoy's link to discovery.
type State struct {
	Connected bool   `json:"Connected"` // discovery answers its stream
	Failures  int64  `json:"Failures"`  // streams that discovery has not answered
	Ended     int64  `json:"Ended"`     // streams that have ended
	Why       string `json:"Why"`       // the last failure; empty when connected
	// Serves is until when the remembered configuration was the newest, if Envoy has that one; else zero
	Serves   time.Time `json:"Serves"`
	Applying int       `json:"Applying"` // responses on its stream that Envoy has not answered yet
}

// envoy is what is known of a process.
type envoy struct {
	number int64

	streams int // that it has; guarded by the relay

	mu       sync.Mutex
	asked    map[string]bool // types
	got      map[string]bool // an answer, and accepted or refused it
	accepted map[string]bool
	basic    time.Time // when it had accepted clusters and listeners
	wants    wants
	state    State
}

func newEnvoy(number int64) *envoy {
	return &envoy{number: number, asked: map[string]bool{}, got: map[string]bool{}, accepted: map[string]bool{}}
}

// begin returns a process's, for another stream that it has. The caller ends it.
func (r *Relay) begin(p Process) *envoy {
	r.mu.Lock()
	defer r.mu.Unlock()
	number := p.Started.UnixNano()
	e := r.envoys[number]
	if e == nil {
		e = newEnvoy(number)
		r.envoys[number] = e
	}
	e.streams++
	for len(r.envoys) > mostEnvoys {
		oldest := int64(0) // of those without a stream: one that serves may be the oldest of all
		for n, one := range r.envoys {
			if one.streams == 0 && (oldest == 0 || n < oldest) {
				oldest = n
			}
		}
		if oldest == 0 {
			break
		}
		delete(r.envoys, oldest)
	}
	return e
}

// end ends a stream of a process. Of one that never serves nothing is kept.
func (r *Relay) end(e *envoy, p Process) {
	e.ended()
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.streams--; e.streams == 0 && p.Trial {
		delete(r.envoys, e.number)
	}
}

// State returns the link of the process that was started at a time, and false if it has not opened a stream.
func (r *Relay) State(started time.Time) (State, bool) {
	r.mu.Lock()
	e := r.envoys[started.UnixNano()]
	r.mu.Unlock()
	if e == nil {
		return State{}, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state, true
}

// Lacks returns what the process that was started at a time has not got of its first configuration; empty for nothing, and for a process that is
// not known.
func (r *Relay) Lacks(started time.Time) string {
	r.mu.Lock()
	e := r.envoys[started.UnixNano()]
	r.mu.Unlock()
	if e == nil {
		return ""
	}
	return e.lacks(time.Now())
}

// lacks relies on Envoy's order: it subscribes to the route tables of its listeners before it answers LDS.
func (e *envoy) lacks(now time.Time) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.wants.met:
		return ""
	case e.asked[lastgood.TypeListener] && !e.got[lastgood.TypeListener]:
		return "LDS has not answered"
	}
	lacks := e.wants.missing(now)
	if lacks == "" && e.got[lastgood.TypeListener] {
		e.wants.end()
	}
	return lacks
}

// sent notes what is in a response.
func (e *envoy) sent(typeURL, nonce string, names []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wants.response(typeURL, nonce, names)
}

// suffice ends the wait for what the process lacks.
func (e *envoy) suffice() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wants.end()
}

// request notes what a process asks for and accepts.
func (e *envoy) request(r lastgood.Request, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Type != "" {
		e.asked[r.Type] = true
	}
	if r.Nonce != "" {
		e.got[r.Type] = true
		e.state.Applying = max(0, e.state.Applying-1)
	}
	if r.Nonce != "" && !r.Refused {
		e.accepted[r.Type] = true
	}
	e.wants.request(r, now)
	if e.basic.IsZero() && e.accepted[lastgood.TypeCluster] && e.accepted[lastgood.TypeListener] {
		e.basic = now
	}
}

// whole reports whether a process has a configuration of all that it asks for, once.
func (e *envoy) whole(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.basic.IsZero() {
		return false
	}
	for typeURL := range e.asked {
		if typeURL != lastgood.TypeSecret && !e.accepted[typeURL] {
			return now.Sub(e.basic) >= patience
		}
	}
	return true
}

// waits reports whether a process waits for an answer. One that refuses an answer has got it.
func (e *envoy) waits() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for typeURL := range e.asked {
		if typeURL != lastgood.TypeSecret && !e.got[typeURL] {
			return true
		}
	}
	return false
}

func (e *envoy) change(f func(*State)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.state)
}

// lost notes that discovery does not answer.
func (e *envoy) lost(why string) {
	e.change(func(s *State) {
		s.Connected, s.Why = false, why
		s.Failures++
	})
}

// answered notes discovery's first answer on a stream.
func (e *envoy) answered() {
	e.change(func(s *State) { s.Connected, s.Why, s.Serves = true, "", time.Time{} })
}

func (e *envoy) ended() {
	e.change(func(s *State) {
		s.Connected, s.Applying = false, 0
		s.Ended++
		e.wants.cut()
	})
}

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
