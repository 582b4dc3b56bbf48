package ads

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// begins marks the begin of the admission, with the first request of a stream, and reports whether it was that.
func (st *stream) begins() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.session != nil || st.admission.waits {
		return false
	}
	st.admission.waits = true
	return true
}

// keep reports whether a request is kept until the view is made.
func (st *stream) keep(k content.Kind, r *protocol.Request) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.admission.waits || st.admission.read >= readAhead {
		return false
	}
	own := *r
	own.Node = nil
	st.admission.read += costOfKept + r.Size
	st.admission.kept = append(st.admission.kept, kept{k, &own})
	return true
}

// admit waits for the view of a stream and answers its first requests. sending is locked.
func (st *stream) admit() {
	err := st.answerKept()
	st.sending.Unlock()
	if err == nil {
		err = st.flush()
	}
	st.fail(err)
}

func (st *stream) answerKept() error {
	st.mu.Lock()
	g := st.hub.current.Load()
	st.shown = g
	st.relocate() // its place may have changed since the first request
	own := st.reader
	st.mu.Unlock()
	first := g.Snapshot(own) // this may take seconds, in which pages that show the stream must not wait
	st.mu.Lock()
	st.session = protocol.New(st.variant, first, g.Share, st.hub.world(g))
	st.mu.Unlock()
	for {
		next, more := st.nextKept()
		if !more {
			return nil
		}
		responses, err := st.request(next.kind, next.request, time.Now())
		if err != nil {
			st.endAdmission(err)
			st.close() // the stream's goroutine may wait for a further request
			return err
		}
		if err := st.send(responses); err != nil {
			st.endAdmission(nil)
			return err
		}
	}
}

// nextKept takes the oldest kept request. If there is none, the admission is over.
func (st *stream) nextKept() (next kept, more bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.admission.kept) == 0 {
		st.admission = admission{}
		return next, false
	}
	next, st.admission.kept = st.admission.kept[0], st.admission.kept[1:]
	return next, true
}

// endAdmission ends an admission before all requests are answered; err is that of a request.
func (st *stream) endAdmission(err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.admission = admission{err: err}
}
