package protocol

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// returns records that the client reports resources that differ from those that there are.
func (p *Session) returns(k content.Kind, now time.Time) {
	if k != content.SDS && !p.back.Waits() {
		p.back.Since = now
	}
}

// Wait returns why the client keeps what it has.
func (p *Session) Wait() Wait { return p.back.Wait }

// Release ends a wait for clusters that are gone, and reports whether there was one. The next flush sends what there is.
func (p *Session) Release() bool {
	was := p.back.Waits() && !p.back.Until.IsZero()
	if was {
		p.back, p.rollout = comeback{}, p.latest
	}
	return was
}

// review brings the wait up to now.
func (p *Session) review(now time.Time) {
	b := &p.back
	if !b.Waits() {
		return
	}
	s := &p.types[content.CDS]
	clusters := p.latest[content.CDS]
	if changed := b.had != s.sent || b.now != clusters; s.sent != nil && changed && (b.had == nil || !p.world.Lacks) {
		b.had, b.now, b.Lost = s.sent, clusters, lost(s.sent, s.wanted(clusters, p.share))
	}
	if b.Wait = p.world.after(b.Wait, b.Lost, now); b.Waits() || b.waited {
		p.rollout = p.latest // no other one has begun
	}
	if b.waited = b.Waits(); !b.waited {
		*b = comeback{}
	}
}

// keeps reports whether the client keeps what it has of k. It gets secrets, without which what it has does not serve.
func (p *Session) keeps(k content.Kind) bool { return p.back.Waits() && k != content.SDS }
