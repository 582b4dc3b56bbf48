package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// receiver keeps what it is sent: messages of any gRPC method as "method bytes", for protobuf has texts as they are,
// or datagrams.
type receiver struct {
	address bootstrap.Address
	mu      sync.Mutex
	got     []string
}

func (r *receiver) keep(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, text)
}

// await does something again and again, until one message has all the words.
func (r *receiver) await(w *world, do func(), words ...string) {
	w.T.Helper()
	has := func(text string) bool {
		for _, word := range words {
			if !strings.Contains(text, word) {
				return false
			}
		}
		return true
	}
	w.Check(lab.Eventually(30*time.Second, func() error {
		do()
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, text := range r.got {
			if has(text) {
				return nil
			}
		}
		return fmt.Errorf("none of %d messages has %q", len(r.got), words)
	}))
}

func (w *world) grpcReceiver() *receiver {
	w.T.Helper()
	r := &receiver{}
	listener, err := net.Listen("tcp", w.Address()+":0")
	w.Check(err)
	r.address, err = bootstrap.ParseAddress(listener.Addr().String())
	w.Check(err)
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(r.stream))
	go server.Serve(listener)
	w.T.Cleanup(server.Stop)
	return r
}

func (r *receiver) stream(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	for {
		var message []byte
		switch err := stream.RecvMsg(&message); {
		case errors.Is(err, io.EOF):
			return stream.SendMsg(&message) // an empty one is a success
		case err != nil:
			return err
		}
		r.keep(method + " " + string(message))
	}
}

// rawCodec leaves messages as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return "raw" }

func (rawCodec) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (rawCodec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte{}, data...)
	return nil
}

func (w *world) udpReceiver() *receiver {
	w.T.Helper()
	r := &receiver{}
	socket, err := net.ListenPacket("udp", w.Address()+":0")
	w.Check(err)
	r.address, err = bootstrap.ParseAddress(socket.LocalAddr().String())
	w.Check(err)
	w.T.Cleanup(func() { socket.Close() })
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			n, _, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			r.keep(string(buffer[:n]))
		}
	}()
	return r
}

// Stats reach a statsd receiver and a metrics service, only those that are wanted or that the agent needs; access logs
// reach their service from a listener that names its cluster.
func TestBootstrapTelemetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.Backend("app")
	w.Service("app.test", app)
	statsd, metrics, logs := w.udpReceiver(), w.grpcReceiver(), w.grpcReceiver()
	params := w.params("measured")
	params.Statsd, params.MetricsService, params.AccessLogService = statsd.address, metrics.address, logs.address
	params.Stats = bootstrap.Stats{
		InclusionPrefixes: []string{"cluster.mine.upstream_rq"}, InclusionSuffixes: []string{"lb_healthy_panic"},
		InclusionRegexps: []string{`cluster\.mine\.membership_.*`},
	}
	port := lab.Port(w.T)
	p := w.boot(params, listener(port, app, `, "access_log": [{"name": "grpc", "typed_config": {
  "@type": "type.googleapis.com/envoy.extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
  "common_config": {"log_name": "logged-by-test", "transport_api_version": "V3", "buffer_flush_interval": "0.1s",
    "grpc_service": {"envoy_grpc": {"cluster_name": "envoy_accesslog_service"}}}}}]`),
		`{"stats_flush_interval": "0.2s"}`).Ready()
	request := func() {
		if _, err := ask(port, "/logged-path"); err != nil {
			t.Logf("ask: %v", err)
		}
	}
	statsd.await(w, request, "envoy.cluster.mine.upstream_rq_200:", "|c")
	statsd.await(w, request, "envoy.http.mine.downstream_rq_total:") // which the agent needs to drain
	const stream = "/envoy.service.metrics.v3.MetricsService/StreamMetrics"
	metrics.await(w, request, stream, "measured.default") // the first message of a stream alone names the node
	metrics.await(w, request, stream, "cluster.mine.upstream_rq_200")
	logs.await(w, request,
		"/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs", "logged-by-test", "measured.default")
	logs.await(w, request, "/logged-path")

	all, err := lab.Get("http://" + p.Admin + "/stats")
	w.Check(err)
	wanted := regexp.MustCompile(`^upstream_rq|^membership_|lb_healthy_panic$`)
	for line := range strings.Lines(all) {
		name, _, _ := strings.Cut(line, ": ")
		if of, ok := strings.CutPrefix(name, "cluster.mine."); ok && !wanted.MatchString(of) {
			t.Errorf("%s is kept, and was not asked for", name)
		}
	}
	for _, name := range []string{
		"cluster.mine.lb_healthy_panic", "cluster.mine.membership_total", // asked for
		"listener_manager.lds.update_success", "cluster_manager.cds.update_success", // the agent's readiness
		"http.mine.downstream_cx_active", "listener.127.0.0.1_" + strconv.Itoa(port) + ".downstream_cx_active", // its drain
	} {
		if !strings.Contains("\n"+all, "\n"+name+": ") {
			t.Errorf("%s is not kept", name)
		}
	}
}

// Spans reach a collector of OpenTelemetry, from a listener that traces and names no collector.
func TestBootstrapOpenTelemetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	collector := w.grpcReceiver()
	params := w.params("traced")
	params.OpenTelemetry = collector.address
	port := lab.Port(w.T)
	w.boot(params, listener(port, w.Backend("app"), `, "tracing": {}`)).Ready()
	collector.await(w, func() {
		if _, err := ask(port, "/traced-path"); err != nil {
			t.Logf("ask: %v", err)
		}
	}, "/opentelemetry.proto.collector.trace.v1.TraceService/Export", "service.name", "traced", "/traced-path")
}
