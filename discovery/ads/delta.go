package ads

import (
	"slices"
	"time"
)

// requestDelta takes a request of the delta variant: subscriptions that come and go, and perhaps an answer to the last
// response. A subscription counts under whatever nonce.
func (p *protocol) requestDelta(k kind, r *request, now time.Time) ([]response, *Nack, error) {
	s := &p.types[k]
	var nack *Nack
	if r.nonce != "" && r.nonce == s.nonce {
		nack = s.answered(r.refusal, now)
	}
	if err := s.change(r.names, r.unsubscribe, p.share); err != nil {
		return nil, nil, err
	}
	if !s.asked {
		s.asked = true
		s.wildcard = k.whole() && r.names == nil
		if err := s.apply(k, p.share); err != nil {
			return nil, nil, err
		}
		s.greet = s.wildcard
		p.resumeDelta(k, r)
	}
	if !s.pending {
		if err := s.apply(k, p.share); err != nil {
			return nil, nil, err
		}
	}
	return p.flush(now), nack, nil
}

// resumeDelta spares an Envoy that reconnects what it has already. It names a version for each; what it has and is not
// there any more it is told.
func (p *protocol) resumeDelta(k kind, r *request) {
	s := &p.types[k]
	if len(r.initial) == 0 || s.rewarmed {
		return
	}
	want := s.wanted(p.state(k), p.share)
	var had []*resource
	equal := 0
	for name, version := range r.versions() {
		switch now := want.find(name); {
		case now != nil && now.exists() && now.version == version:
			had = append(had, now)
			equal++
		case now != nil && k == sds && !now.exists(): // gone, and stays in use
			had = append(had, now)
			equal++
		case now != nil && now.exists(), s.wildcard:
			had = append(had, &resource{name: name, unknown: true})
		}
	}
	if len(had) == equal && equal == want.size() {
		s.sent, s.version, s.acked = want, want.version, want.version
		return
	}
	slices.SortFunc(had, byName)
	had = slices.CompactFunc(had, func(a, b *resource) bool { return a.name == b.name })
	s.sent = newSet(k, had)
}
