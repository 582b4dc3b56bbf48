package traffic

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// proxySpan is what a collector was told of one request at one proxy.
type proxySpan struct{ service, name, status string }

// spans are by the trace that they belong to.
type spans struct {
	mu   sync.Mutex
	seen map[string][]proxySpan
}

func (s *spans) add(trace string, one proxySpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string][]proxySpan{}
	}
	s.seen[trace] = append(s.seen[trace], one)
}

func (s *spans) of(trace string) []proxySpan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[trace]
}

const trace = "0af7651916cd43dd8448eb211c80319c"

// The spans of a request reach the collector that MeshConfig names, as parts of the trace that the request belongs to.
func TestTracing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		provider, protocol string
		serve              func(net.Listener, *spans)
		header             []string
		service            string
	}{
		"Zipkin": {
			"zipkin: {service: collector.test, port: 80}", "HTTP", serveZipkin,
			[]string{"x-b3-traceid", trace, "x-b3-spanid", "b7ad6b7169203331", "x-b3-sampled", "1"},
			"test",
		},
		"OpenTelemetry over gRPC": {
			"opentelemetry: {service: collector.test, port: 80}", "GRPC", serveOTLP,
			[]string{"traceparent", "00-" + trace + "-b7ad6b7169203331-01"},
			"client",
		},
		"OpenTelemetry over HTTP": {
			"opentelemetry: {service: collector.test, port: 80, http: {path: /v1/traces}}", "HTTP", serveOTLPOverHTTP,
			[]string{"traceparent", "00-" + trace + "-b7ad6b7169203331-01"},
			"client",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for Envoy to send its spans, every five seconds
			mesh := filepath.Join(t.TempDir(), "mesh.yaml")
			text := "extensionProviders: [{name: tracer, " + test.provider + "}]\ndefaultProviders: {tracing: [tracer]}\n"
			if err := os.WriteFile(mesh, []byte(text+"defaultConfig: {tracing: {sampling: 100}}\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, "--meshConfig", mesh)
			w.Env = []string{"OTEL_RESOURCE_ATTRIBUTES=service.name=client"}
			l, err := net.Listen("tcp", w.Address()+":0")
			w.Check(err)
			t.Cleanup(func() { l.Close() })
			got := &spans{}
			go test.serve(l, got)
			to := l.Addr().(*net.TCPAddr)
			w.ServiceOf("collector.test", test.protocol, fmt.Sprintf("{address: %s, ports: {http: %d}}", to.IP, to.Port))
			w.Service("app.test", w.Backend("app"))
			p := w.SidecarEnvoy("client", "")
			p.Until(lab.From("app"), "http://app.test/traced", test.header...)
			// A request from before the endpoints arrived has a span as well, with 503.
			answered := func(s proxySpan) bool { return s.service == test.service && s.status == "200" }
			w.Check(lab.Eventually(2*lab.StopLimit, func() error {
				if told := got.of(trace); !slices.ContainsFunc(told, answered) {
					return fmt.Errorf("spans %+v, want one of %s with 200", told, test.service)
				}
				return nil
			}))
			w.Check(lab.Eventually(lab.StopLimit, func() error { // it sends them before it counts them
				if n := p.Stat(`^tracing\..*spans_sent$`); n == 0 {
					return errors.New("Envoy counts no span that it sent")
				}
				return nil
			}))
		})
	}
}

// serveZipkin takes spans as Zipkin's second API has them.
func serveZipkin(l net.Listener, got *spans) {
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var list []struct {
			TraceID, Name string
			LocalEndpoint struct{ ServiceName string }
			Tags          map[string]string
		}
		if r.URL.Path != "/api/v2/spans" || json.NewDecoder(r.Body).Decode(&list) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		for _, s := range list {
			got.add(s.TraceID, proxySpan{s.LocalEndpoint.ServiceName, s.Name, s.Tags["http.status_code"]})
		}
		w.WriteHeader(http.StatusAccepted)
	}))
}

func serveOTLPOverHTTP(l net.Listener, got *spans) {
	_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request tracev1.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		got.export(&request)
	}))
}

func serveOTLP(l net.Listener, got *spans) {
	server := grpc.NewServer()
	tracev1.RegisterTraceServiceServer(server, otlp{spans: got})
	_ = server.Serve(l)
}

type otlp struct {
	tracev1.UnimplementedTraceServiceServer
	*spans
}

func (o otlp) Export(_ context.Context, r *tracev1.ExportTraceServiceRequest) (*tracev1.ExportTraceServiceResponse, error) {
	o.export(r)
	return &tracev1.ExportTraceServiceResponse{}, nil
}

func (s *spans) export(request *tracev1.ExportTraceServiceRequest) {
	for _, of := range request.ResourceSpans {
		service := ""
		for _, a := range of.GetResource().GetAttributes() {
			if a.Key == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.ScopeSpans {
			for _, one := range scope.Spans {
				status := ""
				for _, a := range one.Attributes {
					if a.Key == "http.status_code" {
						status = a.GetValue().GetStringValue()
					}
				}
				s.add(hex.EncodeToString(one.TraceId), proxySpan{service, one.Name, status})
			}
		}
	}
}
