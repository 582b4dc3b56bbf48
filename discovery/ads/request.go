package ads

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// logWithheld logs the secrets that a stream requests and does not get, each reason once. denied is the reason why it
// gets no secrets at all, nil if it may have some; that is logged without their names, see refuse.
func (st *stream) logWithheld(asked *content.Names, denied error) {
	for _, name := range asked.All() {
		var why string
		if denied != nil {
			why = status.Convert(denied).Message()
		} else {
			why = st.shown.Withheld(name, st.reader, st.hub.lacking)
		}
		_, logged := st.withheld[name]
		if why == st.withheld[name] || !logged && len(st.withheld) == maxWithheld {
			continue
		}
		if st.withheld == nil {
			st.withheld = map[string]string{}
		}
		if st.withheld[name] = why; why == "" {
			continue
		}
		if st.hub.onNews(); denied == nil {
			st.log.Warn("secret not sent", "node", st.node, "peer", st.peer, "secret", protocol.Clip(name), "reason", why)
		}
	}
}

// secretsWithheld returns the reasons why secrets that the stream has requested are not sent to it now, by name.
func (st *stream) secretsWithheld() (out map[string]string) {
	for name, why := range st.withheld {
		if st.session != nil && why != "" && st.session.State(content.SDS).Find(name) == nil {
			if out == nil {
				out = map[string]string{}
			}
			out[protocol.Clip(name)] = why
		}
	}
	return out
}

// check returns the kind that a request is for, and whether it is served. Its errors end the stream.
func (st *stream) check(r *protocol.Request) (k content.Kind, served bool, err error) {
	if err := st.claim(); err != nil {
		return 0, false, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if r.Fault != nil {
		return 0, false, status.Error(codes.InvalidArgument, r.Fault.Error())
	}
	if r.TypeURL == "" && st.only != aggregated {
		r.TypeURL = st.only.TypeURL()
	}
	if err := st.identify(r); err != nil {
		return 0, false, err
	}
	if st.admission.err != nil {
		return 0, false, st.admission.err
	}
	k, served = content.KindOf(r.TypeURL)
	if !served || st.only != aggregated && k != st.only {
		return 0, false, st.refuse(r.TypeURL, nil)
	}
	if k == content.SDS {
		if err := st.hub.maySeeSecrets(st.wire.Context()); err != nil {
			st.logWithheld(r.Names, err)
			return 0, false, st.refuse(r.TypeURL, err)
		}
		st.ask(&st.reader.Secrets)
	}
	if k == content.NDS {
		st.ask(&st.reader.Names)
	}
	return k, true, nil
}

// request answers one request. Its errors end the stream.
func (st *stream) request(k content.Kind, r *protocol.Request, now time.Time) ([]protocol.Response, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.dirty.Store(false)
	st.refresh() // an answer that allows the next response must bring the newest state, whether the answer or the push comes first
	waited, found := st.session.Waits(k), st.session.Found(k)
	responses, nack, err := st.session.Request(k, r, now)
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	st.logWait(now)
	if nack != nil || waited && !st.session.WaitsStill(k, responses) {
		st.hub.metrics.answered(k, nack != nil)
		st.traceAnswer(k, nack, now)
	}
	if k == content.SDS {
		st.logWithheld(r.Names, nil)
	}
	st.reach(now)
	st.arm(now)
	if !st.announced {
		st.announced = true
		st.hub.onNews()
		st.hub.changed()
	}
	if nack != nil {
		st.hub.changed()
	}
	if st.session.Found(k) != found {
		st.hub.onNews()
		for _, part := range st.session.RefusedResources(k) {
			st.log.Warn("proxy refuses a part of its configuration, and has the rest", "node", st.node, "type_url", r.TypeURL,
				"resource", part.Resource, "virtual_host", part.Host, "instead", part.Instead, "err", part.Text)
		}
	}
	if nack != nil && st.session.Searching(k) {
		st.log.Debug("response refused, searching for the reason", "node", st.node, "type_url", r.TypeURL, "version", nack.Version, "err", nack.Text)
	} else if nack != nil {
		st.log.Warn("response refused", "node", st.node, "type_url", r.TypeURL, "version", nack.Version, "err", nack.Text)
	}
	return responses, nil
}

// ask records that the stream requests a kind for the first time.
func (st *stream) ask(asked *bool) {
	st.asksMore = st.asksMore || !*asked
	*asked = true
}

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
	kind    content.Kind
	request *protocol.Request
}

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
	st.relocate() // its locality may have changed since the first request
	own := st.reader
	st.mu.Unlock()
	first := g.Snapshot(own) // this may take seconds, in which pages that show the stream must not wait
	st.mu.Lock()
	st.session = protocol.New(st.variant, first, g.Share, st.hub.meshState(g))
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
