package ads

import (
	"errors"
	"strconv"
	"time"
)

// protocol decides the responses of one stream. It is plain state without I/O; one goroutine at a time uses it.
type protocol struct {
	variant    variant
	share      *share    // of the newest generation
	latest     *snapshot // newest
	rollout    *snapshot // the state to which clusters, listeners and routes are being brought
	types      [kinds]subscription
	nonces     int
	fault      error             // the client has requested too much; its next request ends the stream
	heard      time.Time         // when the last request came
	references [kinds]references // from listeners and routes
}

func newProtocol(v variant, first *snapshot, sh *share) *protocol {
	return &protocol{variant: v, share: sh, latest: first, rollout: first}
}

// response is one response to send on a stream.
type response struct {
	variant variant
	kind    kind
	nonce   string
	version string
	news    *news
}

// request handles a request of kind k. It returns the responses to send now, and the refusal that the request carries,
// if any. An error ends the stream.
func (p *protocol) request(k kind, r *request, now time.Time) ([]response, *Nack, error) {
	p.heard = now
	if p.variant == delta {
		return p.requestDelta(k, r, now)
	}
	s := &p.types[k]
	empties := s.named && r.names == nil
	if s.nonce != "" && r.nonce != s.nonce && !empties {
		return nil, nil, nil // overtaken by a response that Envoy has yet to answer
	}
	var nack *Nack
	if r.nonce == s.nonce {
		nack = p.answered(k, r.refusal, now)
	}
	s.replace(k, r.names, p.share)
	if empties {
		s.forget()
	}
	if !s.asked {
		s.asked = true
		p.resume(k, r.version)
	}
	return p.flush(now), nack, nil
}

// push makes latest the state to be reached and returns the responses that can be sent now; the others follow Envoy's
// answers.
func (p *protocol) push(latest *snapshot, sh *share, now time.Time) []response {
	p.latest, p.share = latest, sh
	return p.flush(now)
}

// resume avoids sending a reconnecting Envoy what it has already: the version in its first request shows that.
func (p *protocol) resume(k kind, version string) {
	s := &p.types[k]
	if version == "" || s.rewarmed {
		return
	}
	if want := s.wanted(p.state(k), p.share); version == want.version {
		s.sent, s.accepted, s.version, s.acked = want, want, version, version
	}
}

// flush returns the responses that may be sent now. A rollout is finished before the next begins: if clusters were
// always brought to the newest state first, endless changes would starve the routes, which come last. A rollout whose
// clusters are still to be sent has not begun.
func (p *protocol) flush(now time.Time) []response {
	for k := range kinds {
		if s := &p.types[k]; s.mayApply(now) {
			p.fault = errors.Join(p.fault, s.apply(k, p.share, now))
		}
		p.skipTrials(k)
	}
	if p.behind(cds) || !p.behind(lds) && !p.behind(rds) {
		p.rollout = p.latest // else endpoints, which are always the newest, would overtake clusters
	}
	var out []response
	for {
		out = p.step(out, now)
		if p.rollout == p.latest || p.held(now) {
			break
		}
		p.rollout = p.latest
	}
	p.resetReferences()
	return out
}

// step appends the responses that may be sent now, in order.
func (p *protocol) step(out []response, now time.Time) []response {
	for _, k := range order() {
		if p.types[k].asked && p.open(k, now) {
			if r, news := p.next(k, now); news {
				out = append(out, r)
			}
		}
	}
	return out
}

// next returns the response that brings Envoy to the state of k, and whether it needs one. It records that Envoy will
// have it.
func (p *protocol) next(k kind, now time.Time) (response, bool) {
	s, want := &p.types[k], p.target(k)
	update := p.news(k, want)
	if update == nil && s.greet {
		update = &news{}
	}
	old := s.sent
	s.sent, s.due, s.greet = want, nil, false
	if update == nil {
		if s.accepted == old {
			s.accepted = want // the same content; this frees the older value
		}
		return response{}, false
	}
	switch k {
	case cds:
		p.types[eds].rewarm(old, want, p.share)
	case lds, rds:
		p.references[k].sent = p.clusters()
	}
	p.nonces++
	if !s.pending {
		s.since = now
	}
	s.nonce, s.version, s.at, s.again, s.pending, s.nacked = strconv.Itoa(p.nonces), want.version, now, s.pending, true, false
	return response{p.variant, k, s.nonce, s.version, update}, true
}

// news returns the difference of k that Envoy must receive. If Envoy has subscribed to clusters, endpoints that no
// longer exist are removed with the cluster that named them, which is the better order. Secrets that no longer exist
// stay in use.
func (p *protocol) news(k kind, want *set) *news {
	s := &p.types[k]
	return p.share.answer(question{
		had: s.sent, want: want, due: s.due, variant: p.variant, wildcard: s.wildcard,
		gone: p.variant == delta && k != sds && !(k == eds && p.types[cds].asked),
	})
}

// state returns all resources of k. Endpoints, secrets and names take no part in a rollout: they are always the newest.
func (p *protocol) state(k kind) *set {
	if k == eds || k.asked() {
		return p.latest[k]
	}
	return p.rollout[k]
}

// target returns the resources of k that Envoy should have now. Clusters that no longer exist stay until listeners and
// routes that may still refer to them have been replaced and accepted.
func (p *protocol) target(k kind) *set {
	s := &p.types[k]
	want := s.withheld(s.wanted(p.state(k), p.share), p.share)
	if k == cds && s.sent != nil && s.sent != want {
		want = p.withReferenced(want)
	}
	return want
}

// behind reports whether Envoy has not been sent the state of k.
func (p *protocol) behind(k kind) bool {
	s := &p.types[k]
	return s.asked && (s.greet || s.hasChanges() || p.news(k, p.target(k)) != nil)
}

// settled reports whether Envoy has accepted the latest state of k.
func (p *protocol) settled(k kind) bool {
	s := &p.types[k]
	return !s.asked || !s.pending && !s.nacked && !p.behind(k)
}

// reached reports whether Envoy has accepted all of the newest state, or refused it.
func (p *protocol) reached() bool {
	for k := range kinds {
		if s := &p.types[k]; s.pending || p.behind(k) {
			return false
		}
	}
	return p.rollout == p.latest
}

// idle reports whether every response was answered.
func (p *protocol) idle() bool {
	for k := range kinds {
		if p.types[k].pending {
			return false
		}
	}
	return true
}

// waitsSince returns the time since which the oldest response has no answer, the zero time if all have one. Envoy
// answers for clusters when they are warm, however long that takes: an Envoy that has sent any request since then is
// not slow.
func (p *protocol) waitsSince() (oldest time.Time) {
	for k := range kinds {
		s := &p.types[k]
		if !s.pending || k == cds && p.heard.After(s.since) {
			continue
		}
		if oldest.IsZero() || s.since.Before(oldest) {
			oldest = s.since
		}
	}
	return oldest
}
