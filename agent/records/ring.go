package records

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
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

// Method is the path of the calls that ServeHTTP takes.
const Method = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs"

const (
	// longestMessage is much more than the 16 KB at which Envoy sends its buffer: one record may be longer, by its path.
	longestMessage = 1 << 20
	// A second's worth: with more failures Envoy's buffer fills, and it drops and counts the rest.
	pace       = time.Second
	mostPerSec = 1000
)

// ServeHTTP takes a stream of records until Envoy ends it.
func (r *Ring) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if !frame.Accept(w, request) {
		return
	}
	if request.URL.Path != Method {
		frame.End(w, frame.Unimplemented, fmt.Errorf("method %q, want %s", request.URL.Path, Method))
		return
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return
	}
	p := pacer{began: time.Now()}
	for {
		message, err := frame.Read(request.Body, longestMessage)
		if errors.Is(err, io.EOF) {
			frame.End(w, frame.OK, nil)
			return
		}
		if err != nil {
			if request.Context().Err() == nil {
				r.fault()
			}
			frame.End(w, frame.InvalidArgument, err)
			return
		}
		records, err := parse(message)
		if err != nil {
			r.fault() // the records before the fault count
		}
		r.add(records)
		wait := p.wait(len(records), time.Now())
		if wait == 0 {
			continue
		}
		select {
		case <-request.Context().Done():
			return
		case <-time.After(wait):
		}
	}
}

// pacer bounds how many records a second a stream may bring.
type pacer struct {
	began time.Time // of this second
	taken int
}

// wait returns how long the stream is not to be read after some records.
func (p *pacer) wait(records int, now time.Time) time.Duration {
	if now.Sub(p.began) >= pace {
		p.began, p.taken = now, 0
	}
	if p.taken += records; p.taken < mostPerSec {
		return 0
	}
	return pace - now.Sub(p.began)
}
