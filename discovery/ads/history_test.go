package ads

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// A push is a trace: its changes, the views that were made again, and for each proxy the responses and the times of its
// answers.
func TestPushIsTraced(t *testing.T) {
	both(t, base, func(r *rig, v content.Variant) {
		spans := tracetest.NewSpanRecorder()
		r.Trace(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
		r.Push(adstest.Mesh(1, "a"), model.Change{})
		fast, slow := r.connect(v), r.connect(v)
		for _, c := range []*client{fast, slow} {
			c.subscribe(content.EDS, adstest.Cluster("a"))
			c.ack(content.EDS)
		}
		changed := time.Now()
		pass(100 * time.Millisecond)
		r.Push(adstest.Mesh(2, "a"), model.Change{Since: changed, Keys: []string{"config/a"}, Count: 1})
		synctest.Wait()
		pass(time.Second)
		fast.ack(content.EDS)
		if push := spanNamed(spans, "push", r.current.Load().number); push != nil {
			t.Errorf("the push has ended while a proxy has not answered: %v", push.Attributes())
		}
		pass(time.Second)
		slow.nack(content.EDS, "malformed")

		push := spanNamed(spans, "push", r.current.Load().number)
		if push == nil {
			t.Fatal("the push has no span")
		}
		if took := push.EndTime().Sub(push.StartTime()); !push.StartTime().Equal(changed) || took != 2100*time.Millisecond {
			t.Errorf("the push begins %s after the change and takes %s, want 0s and 2.1s", push.StartTime().Sub(changed), took)
		}
		for key, want := range map[attribute.Key]string{
			"cause": "[config/a]", "responses.eds": "2", "proxies": "2", "proxies.waiting": "0", "views.rebuilt": "1",
			"resources.encoded": "1", "resources.encoded.first": "[eds/" + adstest.Cluster("a") + "]",
		} {
			if got := about(push)[key]; strings.ReplaceAll(got, `"`, "") != want {
				t.Errorf("%s is %s, want %s", key, got, want)
			}
		}
		var parts []string
		for _, s := range spans.Ended() {
			if s.SpanContext().TraceID() == push.SpanContext().TraceID() && s.Name() != "push" {
				var events []string
				for _, e := range s.Events() {
					events = append(events, e.Name)
				}
				parts = append(parts, fmt.Sprintf("%s %v %v", s.Name(), events, s.EndTime().Sub(s.StartTime())))
			}
		}
		slices.Sort(parts)
		want := []string{
			"collect [] 100ms", "encode [] 0s", "proxy [send ack] 1s", "proxy [send nack] 2s", "rebuild view [] 0s",
		}
		if !slices.Equal(parts, want) {
			t.Errorf("parts %q, want %q", parts, want)
		}
	})
}

// A push to a thousand proxies does not make a thousand spans.
func TestTracesAreBounded(t *testing.T) {
	overWire(t, nil, func(r *rig) {
		spans := tracetest.NewSpanRecorder()
		r.Trace(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
		r.Push(adstest.Mesh(1, "a"), model.Change{})
		var clients []*client
		for range 3 * maxTraced {
			c := r.connectBy(r.dialPlain(), content.SotW)
			c.subscribe(content.EDS, adstest.Cluster("a"))
			c.ack(content.EDS)
			clients = append(clients, c)
		}
		r.Push(adstest.Mesh(2, "a"), model.Change{})
		synctest.Wait()
		for _, c := range clients {
			c.ack(content.EDS)
		}
		count := 0
		for _, s := range spans.Ended() {
			if s.Name() == "proxy" {
				count++
			}
		}
		push := spanNamed(spans, "push", 2)
		if push == nil || count != maxTraced || about(push)["proxies"] != fmt.Sprint(3*maxTraced) {
			t.Errorf("%d proxies have spans, want %d; the push: %v", count, maxTraced, push)
		}
	})
}

func spanNamed(spans *tracetest.SpanRecorder, name string, generation int64) trace.ReadOnlySpan {
	for _, s := range spans.Ended() {
		if s.Name() == name && about(s)["generation"] == fmt.Sprint(generation) {
			return s
		}
	}
	return nil
}

func about(s trace.ReadOnlySpan) map[attribute.Key]string {
	out := map[attribute.Key]string{}
	for _, a := range s.Attributes() {
		out[a.Key] = a.Value.String()
	}
	return out
}
