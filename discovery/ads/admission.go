package ads

import "time"

// readAhead is how much is read from a stream that waits for its view, in bytes: the requests, and costOfKept for each.
// As much again may wait unread.
const (
	readAhead  = window
	costOfKept = 512
)

// admission is the wait of a new stream for its view. When a server restarts, a thousand streams wait for a hundred
// views, and each Envoy has sent a request for every type, some of them with a thousand names. Unread they would wait
// in gRPC's buffers; read they are small, since what streams have in common is kept once. So they are read meanwhile.
//
//	first request ─▶ waits ──────────── its view is made ─▶ the kept requests are answered, in order ─▶ over
//	                   │  ▲                                                                               │
//	further requests ──┘  └─ beyond readAhead: not read                       each request is answered at once
type admission struct {
	waits bool
	kept  []kept // the oldest first
	read  int    // bytes, since it began
	err   error  // of a kept request
}

type kept struct {
	kind    kind
	request *request
}

// begins marks the begin of the admission, with the first request of a stream, and reports whether it was that.
func (st *stream) begins() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.protocol != nil || st.admission.waits {
		return false
	}
	st.admission.waits = true
	return true
}

// keep reports whether a request is kept until the view is made.
func (st *stream) keep(k kind, r *request) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.admission.waits || st.admission.read >= readAhead {
		return false
	}
	own := *r
	own.node = nil
	st.admission.read += costOfKept + r.size
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
	g := st.server.current.Load()
	st.shown = g
	st.relocate() // its place may have changed since the first request
	own := st.reader
	st.mu.Unlock()
	first := g.snapshot(own) // this may take seconds, in which pages that show the stream must not wait
	st.mu.Lock()
	st.protocol = newProtocol(st.variant, first, g.share)
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

// identified reports whether the stream's first request has named its node.
func (st *stream) identified() bool { return st.protocol != nil || st.admission.waits }
