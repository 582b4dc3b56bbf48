package records

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/pilotlight/pilotlight/agent/frame"
)

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
