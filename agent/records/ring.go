package records

import (
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/why"
)

// kept is how many records stay; all together have less than 200 KB.
const kept = 100

// Ring holds the last records of all Envoys of the agent.
type Ring struct {
	Since time.Time // of what is kept: the start of this image of the agent

	mu     sync.Mutex
	last   []why.Request // the oldest is at next, once it is full
	next   int
	seen   int64 // all records that were received
	faults int64 // messages that could not be read
}

// Report is what a Ring says.
type Report struct {
	Since    time.Time
	Requests []why.Request // the oldest first
	Seen     int64         // since Since; more than there are Requests if older ones were replaced
	Faults   int64         // messages of Envoy that could not be read
}

func (r *Ring) add(requests []why.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, request := range requests {
		r.seen++
		if len(r.last) < kept {
			r.last = append(r.last, request)
			continue
		}
		r.last[r.next] = request
		r.next = (r.next + 1) % kept
	}
}

func (r *Ring) fault() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults++
}

// Report returns a copy of what is kept.
func (r *Ring) Report() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests := append(append([]why.Request{}, r.last[r.next:]...), r.last[:r.next]...)
	return Report{Since: r.Since, Requests: requests, Seen: r.seen, Faults: r.faults}
}
