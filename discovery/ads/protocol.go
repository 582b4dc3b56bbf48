package ads

import (
	"strconv"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// protocol decides what one stream is sent. It is plain state without I/O; one goroutine at a time uses it.
type protocol struct {
	latest  *snapshot // newest
	rollout *snapshot // what clusters, listeners and routes are being brought to
	types   [kinds]subscription
	nonces  int
}

func newProtocol(first *snapshot) *protocol { return &protocol{latest: first, rollout: first} }

// response is what a stream sends next.
type response struct {
	kind      kind
	nonce     string
	version   string
	resources []*resource
}

// request takes a request of kind k. It returns what to send now, and the refusal that the request carries, if any.
func (p *protocol) request(k kind, r *discoveryv3.DiscoveryRequest, now time.Time) ([]response, *Nack) {
	s := &p.types[k]
	if s.nonce != "" && r.ResponseNonce != s.nonce {
		return nil, nil // overtaken by a response that Envoy has yet to answer
	}
	nack := s.answered(refusal(r), now)
	s.subscribe(k, r.ResourceNames)
	if !s.asked {
		s.asked = true
		p.resume(k, r.VersionInfo)
	}
	return p.flush(), nack
}

// push makes latest the state to be reached and returns what can be sent now; the rest follows Envoy's answers.
func (p *protocol) push(latest *snapshot) []response {
	p.latest = latest
	return p.flush()
}

// resume spares an Envoy that reconnects what it has already: it says so with the version in its first request.
func (p *protocol) resume(k kind, version string) {
	s := &p.types[k]
	if version == "" || s.rewarmed {
		return
	}
	if all := p.state(k); version == s.versionOf(k, all) {
		s.sent, s.due, s.version, s.acked = s.wanted(k, all), nil, version, version
	}
}

// flush sends what may be sent. A rollout is finished before the next begins: were clusters always brought to the
// newest state first, endless changes would starve the routes, which come last.
func (p *protocol) flush() []response {
	var out []response
	for {
		out = append(out, p.step()...)
		if p.rollout == p.latest || p.gated() {
			return out
		}
		p.rollout = p.latest
	}
}

// step sends in the order of kinds.
func (p *protocol) step() []response {
	var out []response
	for k := range kinds {
		if k == lds && p.gated() {
			break
		}
		if s := &p.types[k]; s.asked && !s.pending {
			if r, news := p.next(k); news {
				out = append(out, r)
			}
		}
	}
	return out
}

// gated reports whether listeners and routes must wait: until Envoy has answered for its clusters, which it does when
// they are warm, and until no endpoints are held back. Routes themselves are never warmed.
func (p *protocol) gated() bool { return p.types[cds].pending || p.behind(eds) }

// next returns the response that brings Envoy to the state of k, and whether it needs one. It records that Envoy will
// have it.
func (p *protocol) next(k kind) (response, bool) {
	s, want := &p.types[k], p.target(k)
	news := s.news(k, want)
	old := s.sent
	s.sent, s.due = want, nil
	if news == nil {
		return response{}, false
	}
	if k == cds {
		p.types[eds].rewarm(old, want)
	}
	p.nonces++
	s.nonce, s.version, s.pending, s.nacked = strconv.Itoa(p.nonces), s.versionOf(k, want), true, false
	return response{kind: k, nonce: s.nonce, version: s.version, resources: news}, true
}

// state is all that there is of k. Endpoints take no part in a rollout: they are always the newest.
func (p *protocol) state(k kind) *set {
	if k == eds {
		return p.latest[k]
	}
	return p.rollout[k]
}

// target is what Envoy should have of k now. Clusters that are gone stay until listeners and routes that may still
// lead to them have been replaced and accepted.
func (p *protocol) target(k kind) *set {
	s := &p.types[k]
	want := s.wanted(k, p.state(k))
	if k == cds && s.sent != nil && s.sent != want && !(p.settled(lds) && p.settled(rds)) {
		want = want.with(s.sent)
	}
	return want
}

// behind reports whether Envoy has not been sent the state of k.
func (p *protocol) behind(k kind) bool {
	s := &p.types[k]
	return s.asked && s.news(k, p.target(k)) != nil
}

// settled reports whether Envoy has accepted the latest state of k.
func (p *protocol) settled(k kind) bool {
	s := &p.types[k]
	return !s.asked || !s.pending && !s.nacked && !p.behind(k)
}

// refusal is the text of a NACK, "" for any other request.
func refusal(r *discoveryv3.DiscoveryRequest) string {
	if r.ErrorDetail == nil {
		return ""
	}
	if r.ErrorDetail.Message == "" {
		return "refused without a reason"
	}
	return r.ErrorDetail.Message
}
