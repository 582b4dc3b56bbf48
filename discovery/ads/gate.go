package ads

import (
	"bytes"
	"sort"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// patience is how long a response waits for an answer that Envoy may withhold. Envoy answers for clusters when they are
// warm, and a cluster may warm for ever.
const patience = time.Second

// overdue reports whether the last response has had no answer for so long that nothing should wait for it any more.
func (s *subscription) overdue(now time.Time) bool { return s.pending && now.Sub(s.at) >= patience }

// open reports whether k may be sent now. A response follows the answer to the one before. Clusters alone may follow an
// answer that is overdue: once, and again after each request from Envoy, so that few responses are buffered for an
// Envoy that does not read.
func (p *protocol) open(k kind, now time.Time) bool {
	s := &p.types[k]
	if s.pending {
		return k == cds && s.overdue(now) && (!s.again || p.heard.After(s.at))
	}
	switch k {
	case lds, rds:
		return !p.gated(k, now)
	case nds: // a name may resolve to an address that a new listener serves
		return !p.behind(lds)
	default:
		return true
	}
}

// gated reports whether listeners or routes must wait: for endpoints that are held back, and for clusters that they name
// and that Envoy does not have. A cluster that changed does not count, since Envoy keeps the old one until the new one is
// warm. Routes themselves are never warmed.
func (p *protocol) gated(k kind, now time.Time) bool {
	if p.behind(eds) && !p.types[eds].overdue(now) {
		return true
	}
	s := &p.types[cds]
	if (!s.pending || s.overdue(now)) && !p.behind(cds) {
		return false
	}
	update := p.news(k, p.target(k))
	return update != nil && (s.accepted == nil || p.share.names(update, p.share.added(s.accepted, p.clusters())))
}

// held reports whether a part of the rollout must still be sent before the next rollout may begin.
func (p *protocol) held(now time.Time) bool {
	return p.behind(cds) || p.behind(lds) && p.gated(lds, now) || p.behind(rds) && p.gated(rds, now)
}

// wakes returns when something may be sent even if Envoy sends nothing until then: the zero time for never.
func (p *protocol) wakes(now time.Time) (wake time.Time) {
	for _, k := range []kind{cds, eds} {
		s := &p.types[k]
		if s.pending {
			wake = earliest(now, wake, s.at.Add(patience))
		}
	}
	if !wake.IsZero() && p.rollout == p.latest && !p.behind(cds) && !p.behind(lds) && !p.behind(rds) {
		wake = time.Time{}
	}
	for k := range kinds {
		if s := &p.types[k]; s.hasChanges() && !s.pending {
			wake = earliest(now, wake, s.changes.applyAfter(s.names.len()))
		}
	}
	return wake
}

// earliest returns the earlier one of two times after now; the zero time is none.
func earliest(now, a, b time.Time) time.Time {
	if b.After(now) && (a.IsZero() || b.Before(a)) {
		return b
	}
	return a
}

// added returns the names of resources that exist in one set and not in the one before.
func (sh *share) added(from, to *set) *names {
	return sh.additions.get(pair[*set]{from, to}, func() (list *names) {
		for _, s := range sh.compare(from, to) {
			fresh := s.fresh
			for _, l := range from.layers {
				if l != s.from {
					fresh = sh.less(less{fresh, &l.part, leaveKnown})
				}
			}
			list = sh.merge(list, sh.namesIn(fresh), nil)
		}
		return list
	})
}

// names reports whether the resources of news contain one of the names. It may report a name by mistake.
func (sh *share) names(n *news, list *names) bool {
	if list == nil {
		return false
	}
	for _, p := range n.parts {
		find := func() bool { return p.names(list) }
		if p.long() && sh.named.get(naming{p, list}, find) || !p.long() && find() {
			return true
		}
	}
	return false
}

// longPart is the size in bytes from which the result of such a search is kept: one route configuration may hold every
// host of a port.
const longPart = 16 << 10

func (p *part) long() bool {
	size := 0
	for _, r := range p.resources {
		if size += r.size(); size >= longPart {
			return true
		}
	}
	return false
}

// names searches the bytes of its resources. No message is decoded; a false match costs only a wait.
func (p *part) names(list *names) bool {
	for _, r := range p.resources {
		if !r.exists() {
			continue
		}
		_, _, typeURL := protowire.ConsumeField(r.content) // all of a kind have the same
		if speaksOf(r.content[typeURL:], list.all()) {
			return true
		}
		for _, hosts := range r.pieces() { // a name is within a host
			if speaksOf(hosts, list.all()) {
				return true
			}
		}
	}
	return false
}

// speaksOf reports whether one of the names, which are sorted, is in content. There may be a thousand names of a
// hundred bytes that differ only in their last few bytes. So it searches for the common prefix of the names with the
// same first letter.
func speaksOf(content []byte, names []string) bool {
	for len(names) > 0 {
		n := 1
		for n < len(names) && names[n][:1] == names[0][:1] {
			n++
		}
		alike := names[:n]
		prefix := []byte(names[0][:common(names[0], names[n-1])])
		for rest := content; ; rest = rest[1:] {
			at := bytes.Index(rest, prefix)
			if at < 0 {
				break
			}
			if rest = rest[at:]; beginsWithOne(rest, alike) {
				return true
			}
		}
		names = names[n:]
	}
	return false
}

// beginsWithOne reports whether text begins with one of the names, which are sorted.
func beginsWithOne(text []byte, names []string) bool {
	for {
		after := sort.Search(len(names), func(i int) bool { return names[i] > string(text) })
		if after == 0 {
			return false
		}
		last := names[after-1]
		n := common(last, text)
		if n == len(last) {
			return true
		}
		text, names = text[:n], names[:after-1] // any other match is a prefix of the part that both have in common
	}
}

// common returns the length of the common prefix of two texts, in bytes.
func common[T string | []byte](a string, b T) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
