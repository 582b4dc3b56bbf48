package ads

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// maxPushes is how many pushes are remembered.
const maxPushes = 32

// Push is one generation as /debug shows it: from its changes to the last proxy's answer.
type Push struct {
	Generation int64          `json:"generation"`
	Cause      []string       `json:"cause"`   // keys of the changes, as source/key
	Changes    int            `json:"changes"` // number of changes; not all of them may be in Cause
	Since      time.Time      `json:"since"`   // the first of those changes
	Pushed     time.Time      `json:"pushed"`
	Views      int64          `json:"views_rebuilt"`
	ViewNames  []string       `json:"views,omitempty"` // the first few of those: role/namespace
	Encoded    int64          `json:"resources_encoded"`
	Resources  []string       `json:"resources,omitempty"` // the first few of those: type/name
	Responses  map[string]int `json:"responses"`           // sent, by type; a push of endpoints only is incremental
	Proxies    int            `json:"proxies"`             // that were connected
	Waiting    int            `json:"waiting"`             // proxies that have not answered for all of it
	First      time.Time      `json:"first_ack,omitzero"`
	Last       time.Time      `json:"last_ack,omitzero"` // when Waiting is 0
}

// history follows the last pushes to their ends. A proxy that receives a newer push before it has answered reaches the
// older one together with the newer.
type history struct {
	mu     sync.Mutex
	pushes []*record // the oldest first
}

type record struct {
	Push
	work    *content.Work
	span    trace.Span
	proxies int // that were connected
	traced  int // that have a span
}

// begin adds a new generation and the number of connected proxies.
func (h *history) begin(g *generation, connected int, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &record{work: g.Work, span: g.Span, proxies: connected, Push: Push{
		Generation: g.number, Cause: g.change.Keys, Changes: g.change.Count, Since: g.change.Since, Pushed: now,
		Responses: map[string]int{}, Proxies: connected, Waiting: connected,
	}}
	if connected == 0 {
		r.end(now)
	}
	h.pushes = append(h.pushes, r)
	if len(h.pushes) > maxPushes {
		h.pushes[0].end(now)
		h.pushes[0] = nil
		h.pushes = h.pushes[1:]
	}
}

func (h *history) sent(generation int64, responses []protocol.Response) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pushes {
		if p.Generation == generation {
			for i := range responses {
				p.Responses[responses[i].Kind.String()]++
			}
		}
	}
}

// reached records that a proxy has all of generation to, or has left; it counts for the pushes after generation from.
// It returns the durations of the pushes that end with this, each counted from its change.
func (h *history) reached(from, to int64, now time.Time) (ended []time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pushes {
		if p.Generation <= from || p.Generation > to || p.Waiting == 0 {
			continue
		}
		if p.First.IsZero() {
			p.First = now
		}
		if p.Waiting--; p.Waiting == 0 {
			p.Last = now
			p.end(now)
			ended = append(ended, now.Sub(p.Since))
		}
	}
	return ended
}

func (h *history) list() []Push {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]Push, 0, len(h.pushes))
	for _, p := range h.pushes {
		one := p.Push
		one.Views, one.ViewNames = p.work.Rebuilt.Total(), p.work.Rebuilt.First()
		one.Encoded, one.Resources = p.work.Encoded.Total(), p.work.Encoded.First()
		one.Responses = maps.Clone(p.Responses)
		out = append(out, one)
	}
	return out
}

// end closes the trace of a push that all proxies have answered, or that the history drops.
func (r *record) end(now time.Time) {
	if !r.span.IsRecording() {
		return
	}
	for kind, n := range r.Responses {
		r.span.SetAttributes(attribute.Int("responses."+kind, n))
	}
	r.span.SetAttributes(
		attribute.Int("proxies", r.proxies), attribute.Int("proxies.waiting", r.Waiting),
		attribute.Int64("views.rebuilt", r.work.Rebuilt.Total()), attribute.Int64("resources.encoded", r.work.Encoded.Total()),
		attribute.StringSlice("resources.encoded.first", r.work.Encoded.First()),
	)
	r.span.End(trace.WithTimestamp(now))
}

// traceProxy begins the span of one proxy. It records nothing for proxies beyond maxTraced.
func (h *history) traceProxy(g *generation, node string, now time.Time) trace.Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pushes {
		if p.Generation == g.number && p.traced < maxTraced {
			p.traced++
			return content.Child(g.Span, "proxy", trace.WithTimestamp(now), trace.WithAttributes(attribute.String("node", node)))
		}
	}
	return content.Silent()
}

// A push is a trace, if tracing is on:
//
//	push                  from the first change to the last proxy's answer
//	├─ collect            until the mesh was made: the debounce, and its building
//	├─ rebuild view       one for each outbound view
//	│  └─ encode          its new resources
//	└─ proxy              from its first response to its answer for all; with an event for each response and answer
//
// maxTraced is how many proxies of a push have a span of their own; the span of the push holds the number of all
// proxies.
const maxTraced = 32

// spanOf begins the trace of g. collected is the time when making g began. t is nil for none.
func spanOf(t trace.Tracer, g *generation, collected time.Time) trace.Span {
	if t == nil {
		return content.Silent()
	}
	since := g.change.Since
	if since.IsZero() {
		since = collected
	}
	_, span := t.Start(context.Background(), "push", trace.WithNewRoot(), trace.WithTimestamp(since), trace.WithAttributes(
		attribute.Int64("generation", g.number),
		attribute.StringSlice("cause", g.change.Keys),
		attribute.Int("changes", g.change.Count),
	))
	content.Child(span, "collect", trace.WithTimestamp(since)).End(trace.WithTimestamp(collected))
	return span
}
