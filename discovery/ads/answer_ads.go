package ads

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// logWithheld logs the secrets that a stream requests and does not get, each reason once. denied is the reason why it
// gets no secrets at all, nil if it may have some; that is logged without their names, see refuse.
func (st *stream) logWithheld(asked *names, denied error) {
	for _, name := range asked.all() {
		var why string
		if denied != nil {
			why = status.Convert(denied).Message()
		} else {
			why = st.shown.withheld(name, st.reader)
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
			st.log.Warn("secret not sent", "node", st.node, "peer", st.peer, "secret", clip(name), "reason", why)
		}
	}
}

// secretsWithheld returns the reasons why secrets that the stream has requested are not sent to it now, by name.
func (st *stream) secretsWithheld() (out map[string]string) {
	for name, why := range st.withheld {
		if st.protocol != nil && why != "" && st.protocol.state(sds).find(name) == nil {
			if out == nil {
				out = map[string]string{}
			}
			out[clip(name)] = why
		}
	}
	return out
}

// check returns the kind that a request is for, and whether it is served. Its errors end the stream.
func (st *stream) check(r *request) (k kind, served bool, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if r.fault != nil {
		return 0, false, status.Error(codes.InvalidArgument, r.fault.Error())
	}
	if r.typeURL == "" && st.only != aggregated {
		r.typeURL = st.only.typeURL()
	}
	if err := st.identify(r); err != nil {
		return 0, false, err
	}
	if st.admission.err != nil {
		return 0, false, st.admission.err
	}
	k, served = kindOf(r.typeURL)
	if !served || st.only != aggregated && k != st.only {
		return 0, false, st.refuse(r.typeURL, nil)
	}
	if k == sds {
		if err := st.hub.maySeeSecrets(st.wire.Context()); err != nil {
			st.logWithheld(r.names, err)
			return 0, false, st.refuse(r.typeURL, err)
		}
		st.ask(&st.reader.secrets)
	}
	if k == nds {
		st.ask(&st.reader.names)
	}
	return k, true, nil
}

// request answers one request. Its errors end the stream.
func (st *stream) request(k kind, r *request, now time.Time) ([]response, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.dirty.Store(false)
	st.refresh() // an answer that allows the next response must bring the newest state, whether the answer or the push comes first
	waited, found := st.protocol.waits(k), st.protocol.found(k)
	responses, nack, err := st.protocol.request(k, r, now)
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	if nack != nil || waited && !st.protocol.waitsStill(k, responses) {
		st.hub.metrics.answered(k, nack != nil)
		st.traceAnswer(k, nack, now)
	}
	if k == sds {
		st.logWithheld(r.names, nil)
	}
	st.reach(now)
	st.arm(now)
	if !st.told {
		st.told = true
		st.hub.onNews()
	}
	if st.protocol.found(k) != found {
		st.hub.onNews()
		for _, part := range st.protocol.parts(k) {
			st.log.Warn("proxy refuses a part of its configuration, and has the rest", "node", st.node, "type_url", r.typeURL,
				"resource", part.Resource, "virtual_host", part.Host, "instead", part.Instead, "err", part.Text)
		}
	}
	if nack != nil && st.protocol.searching(k) {
		st.log.Debug("response refused, searching for the reason", "node", st.node, "type_url", r.typeURL, "version", nack.Version, "err", nack.Text)
	} else if nack != nil {
		st.log.Warn("response refused", "node", st.node, "type_url", r.typeURL, "version", nack.Version, "err", nack.Text)
	}
	return responses, nil
}

// ask records that the stream requests a kind for the first time.
func (st *stream) ask(asked *bool) {
	st.asksMore = st.asksMore || !*asked
	*asked = true
}
