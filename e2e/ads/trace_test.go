package ads

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// collector takes traces as OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
	about map[string]string // of the last sender
}

func newCollector(t *testing.T) *collector {
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		data := &tracepb.TracesData{} // has the form of the request
		if err == nil {
			err = proto.Unmarshal(body, data)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("traces at %s: %v", r.URL.Path, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, from := range data.ResourceSpans {
			c.about = attributes(from.Resource.GetAttributes())
			for _, scope := range from.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range list {
		out[a.Key] = a.Value.GetStringValue()
	}
	return out
}

// A collector can be told of every push, from the file that changed to the ACK of each Envoy.
func TestTraces(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	overADS(t, func(l *envoyLab) {
		l.start(0)
		l.answers("one")
		l.clients(1)
		l.serve("two")
		l.answers("two")
		l.clients(1)
		l.Discovery.Stop(lab.StopLimit) // delivers the rest
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.about["service.name"] != "pilotlight-discovery" {
			t.Errorf("the sender is %v", c.about)
		}
		i := slices.IndexFunc(c.spans, func(s *tracepb.Span) bool { return s.Name == "proxy" })
		if i < 0 {
			t.Fatalf("no proxy's span among %d", len(c.spans))
		}
		var parts []string
		var events []string
		for _, s := range c.spans {
			if string(s.TraceId) == string(c.spans[i].TraceId) {
				parts = append(parts, s.Name)
			}
		}
		for _, e := range c.spans[i].Events {
			events = append(events, e.Name+" "+attributes(e.Attributes)["type"])
		}
		slices.Sort(parts)
		if want := []string{"collect", "encode", "proxy", "push", "rebuild view"}; !slices.Equal(parts, want) {
			t.Errorf("the trace of a change has %q, want %q", parts, want)
		}
		if want := []string{"send eds", "ack eds"}; !slices.Equal(events, want) {
			t.Errorf("the proxy's part has %q, want %q", events, want)
		}
		c.spans = nil
	}, "--otlpEndpoint", c.URL)
}

// A collector that is away is named in the log, and delays nothing.
func TestTracesNobodyTakes(t *testing.T) {
	t.Parallel()
	port, err := lab.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	overADS(t, func(l *envoyLab) {
		l.start(0)
		l.answers("one")
		l.serve("two")
		l.answers("two")
		l.Discovery.Stop(lab.StopLimit)
		if log := l.Discovery.Log(); !strings.Contains(log, "traces not delivered") || !strings.Contains(log, "msg=stopped") {
			t.Errorf("want it told that traces are not delivered, and an orderly end:\n%s", log)
		}
	}, "--otlpEndpoint", fmt.Sprintf("http://127.0.0.1:%d", port))
}
