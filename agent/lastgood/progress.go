package lastgood

import (
	"slices"
	"strings"
	"time"
)

// progress is how far an Envoy's configuration is accepted: which types it has asked for, and which responses it has not
// answered. It is pure.
type progress struct {
	asked    map[string]bool
	accepted map[string]bool
	pending  map[string]pending // by type and nonce: of the stream
	unsure   []pending          // of streams that have ended before the answer
}

type pending struct {
	typeURL string
	number  uint64
	names   []string // of clusters and listeners; nil if there are too many
	last    Mark
}

// Mark is the last resource of a response, or the last one that it removes. Envoy takes a whole response or nothing of it, but
// for the parts that it refuses, so the mark tells which.
type Mark struct {
	Name, Version string
	Removed       bool
}

// The waits before a journal takes the name of the one before.
const (
	quietTime  = time.Second            // without news, when all is accepted
	settleTime = 5 * time.Second        // once each type has an answer that Envoy has accepted: in a busy mesh there is always news
	patience   = 20 * time.Second       // for types without one: Envoy itself goes on without them after 15 s
	heldTime   = 100 * time.Millisecond // between two questions whether a held newcomer serves
)

// mostUnsure is how many responses without an answer are kept over the ends of streams.
const mostUnsure = 1000

func newProgress() *progress {
	return &progress{asked: map[string]bool{}, accepted: map[string]bool{}, pending: map[string]pending{}}
}

// wait returns when the configuration counts as whole: a time without news, and at the latest a time after most became what it is. most is
// 0 while it does not count at all.
func (p *progress) wait() (quiet, most time.Duration) {
	if !p.accepted[TypeCluster] || !p.accepted[TypeListener] {
		return 0, 0
	}
	for typeURL := range p.asked {
		if !p.accepted[typeURL] && typeURL != TypeSecret {
			return patience, patience
		}
	}
	if len(p.pending)+len(p.unsure) > 0 {
		return settleTime, settleTime
	}
	return quietTime, settleTime
}

// unanswered returns the numbers of the responses that Envoy may still accept.
func (p *progress) unanswered() map[uint64]bool {
	out := map[uint64]bool{}
	for _, one := range p.pending {
		out[one.number] = true
	}
	for _, one := range p.unsure {
		out[one.number] = true
	}
	return out
}

// cut notes that the stream has ended: of a response without an answer nobody knows whether Envoy has taken it, until it comes
// back. cut returns false if there are too many of them.
func (p *progress) cut() bool {
	for len(p.pending) > 0 && len(p.unsure) < mostUnsure {
		oldest := ""
		for key, one := range p.pending {
			if first, some := p.pending[oldest]; !some || one.number < first.number {
				oldest = key
			}
		}
		p.unsure = append(p.unsure, p.pending[oldest])
		delete(p.pending, oldest)
	}
	return len(p.pending) == 0
}

// resume takes the versions that Envoy has of a type, on a new stream, and returns the numbers of the responses without an
// answer that it has taken.
func (p *progress) resume(typeURL string, versions map[string]string) (taken []uint64) {
	var others []pending
	for _, one := range p.unsure {
		version, has := versions[one.last.Name]
		switch {
		case one.typeURL != typeURL:
			others = append(others, one)
		case has != one.last.Removed && version == one.last.Version:
			taken = append(taken, one.number)
			p.accepted[typeURL] = true
		}
	}
	p.unsure = others
	return taken
}

func pendingKey(typeURL, nonce string) string { return typeURL + "\x00" + nonce }

// answer takes Envoy's ACK or NACK of a response, and returns the response's number and the names of what Envoy has refused; false
// if nothing of it counts.
func (p *progress) answer(r Request) (number uint64, refused []string, counts bool) {
	key := pendingKey(r.Type, r.Nonce)
	one, known := p.pending[key]
	if !known {
		return 0, nil, false
	}
	delete(p.pending, key)
	if !r.Refused {
		p.accepted[one.typeURL] = true
		return one.number, nil, true
	}
	if one.typeURL != TypeCluster && one.typeURL != TypeListener {
		return 0, nil, false
	}
	for _, name := range one.names {
		if namedIn(r.Refusal, name) {
			refused = append(refused, name)
		}
	}
	if len(refused) == 0 || len(refused) == len(one.names) {
		return 0, nil, false
	}
	p.accepted[one.typeURL] = true
	return one.number, refused, true
}

// namedIn reports whether Envoy's text about clusters or listeners names one: "Error adding/updating listener(s) NAME: reason".
func namedIn(text, name string) bool {
	if name == "" {
		return true
	}
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(name)
		before := start == 0 || slices.Contains([]byte(" \n\t'\",("), text[start-1])
		after := end == len(text) || slices.Contains([]byte(": \n\t'\",)"), text[end])
		if before && after {
			return true
		}
		from = start + 1
	}
}
