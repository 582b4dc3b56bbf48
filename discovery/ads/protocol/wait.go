package protocol

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// MeshState is what a session must know of a mesh besides its resources.
type MeshState struct {
	Lacks   bool          // a source is late of which nothing is known: what a client has may be of it
	Forgone bool          // there is such a source, and clients no longer wait for it: what one loses may be of it
	Wipe    time.Duration // how long a client keeps clusters that are gone at once, if they are a mass; 0 for not at all
}

// Wait is why a client that has come back keeps what it has. The zero Wait is that of one that gets what there is.
//
//	first request of a kind ─┬ without versions, or with those that there are ─▶ no Wait
//	                         └ with others ─▶ Wait ─ no source is lacking ─▶ most clusters would go, and no source is forgone ─ all are there, released, Until ─▶ no Wait
type Wait struct {
	Since time.Time   `json:"since,omitzero"`
	Until time.Time   `json:"until,omitzero"` // zero while a source is lacking
	Lost  model.Tally `json:"clusters"`       // its clusters that are no longer there
}

// Waits reports whether there is a reason.
func (w Wait) Waits() bool { return !w.Since.IsZero() }

// after returns the wait of a client at now that would lose so many of its clusters.
func (w MeshState) after(last Wait, lost model.Tally, now time.Time) Wait {
	next := Wait{Since: last.Since, Until: last.Until, Lost: lost}
	switch {
	case !last.Waits():
		return Wait{}
	case w.Lacks:
		next.Until = time.Time{}
		return next
	case w.Wipe > 0 && !w.Forgone && last.Until.IsZero() && lost.Mass():
		next.Until = now.Add(w.Wipe)
		return next
	case lost.Lost > 0 && !w.Forgone && now.Before(last.Until): // those that are back do not take the others away
		return next
	default:
		return Wait{}
	}
}

// reconnection is the wait of a session, and the sets of clusters that its tally compares.
type reconnection struct {
	Wait
	waited   bool // for longer than one request
	had, now *content.Set
}

// lost counts the clusters that a client has, and those of them that are no longer there.
func lost(had, now *content.Set) model.Tally {
	t := model.Tally{Had: had.Size()}
	for _, r := range had.All() {
		if found := now.Find(r.Name); found == nil || !found.Exists() {
			t.Lost++
		}
	}
	return t
}

// reconnected records that the client reports resources that differ from those that there are.
func (p *Session) reconnected(k content.Kind, now time.Time) {
	if k != content.SDS && !p.reconnect.Waits() {
		p.reconnect.Since = now
	}
}

// Wait returns why the client keeps what it has.
func (p *Session) Wait() Wait { return p.reconnect.Wait }

// Release ends a wait for clusters that are gone, and reports whether there was one. The next flush sends what there
// is.
func (p *Session) Release() bool {
	was := p.reconnect.Waits() && !p.reconnect.Until.IsZero()
	if was {
		p.reconnect, p.rollout = reconnection{}, p.latest
	}
	return was
}

// review brings the wait up to now.
func (p *Session) review(now time.Time) {
	b := &p.reconnect
	if !b.Waits() {
		return
	}
	s := &p.types[content.CDS]
	clusters := p.latest[content.CDS]
	if changed := b.had != s.sent || b.now != clusters; s.sent != nil && changed && (b.had == nil || !p.mesh.Lacks) {
		b.had, b.now, b.Lost = s.sent, clusters, lost(s.sent, s.wanted(clusters, p.share))
	}
	if b.Wait = p.mesh.after(b.Wait, b.Lost, now); b.Waits() || b.waited {
		p.rollout = p.latest // no other one has begun
	}
	if b.waited = b.Waits(); !b.waited {
		*b = reconnection{}
	}
}

// keeps reports whether the client keeps what it has of k. It gets secrets, without which what it has does not serve.
func (p *Session) keeps(k content.Kind) bool { return p.reconnect.Waits() && k != content.SDS }
