package records

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pilotlight/pilotlight/agent/frame"
	"github.com/pilotlight/pilotlight/agent/why"
)

var begin = time.Date(2026, 5, 4, 3, 2, 1, 5e6, time.UTC)

func socketAddress(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// entry is a record of a request, as Envoy sends it, with a change.
func entry(change func(*datav3.HTTPAccessLogEntry)) *servicev3.StreamAccessLogsMessage {
	e := &datav3.HTTPAccessLogEntry{
		CommonProperties: &datav3.AccessLogCommon{
			StartTime: timestamppb.New(begin), Duration: durationpb.New(1500 * time.Microsecond), UpstreamCluster: "outbound|8080||api.default.svc.cluster.local",
			DownstreamRemoteAddress: socketAddress("10.0.0.3", 4000), UpstreamRemoteAddress: socketAddress("10.0.0.7", 8080),
			UpstreamTransportFailureReason: "delayed connect error: Connection refused", RouteName: "r", UpstreamRequestAttemptCount: 3,
			ResponseFlags: &datav3.ResponseFlags{UpstreamConnectionFailure: true, UpstreamRetryLimitExceeded: true},
		},
		Request:  &datav3.HTTPRequestProperties{RequestMethod: corev3.RequestMethod_GET, Authority: "api", Path: "/a", OriginalPath: "/b?token=s3cret&n=1&s3cret"},
		Response: &datav3.HTTPResponseProperties{ResponseCode: wrapperspb.UInt32(503), ResponseCodeDetails: "upstream_reset"},
	}
	change(e)
	return &servicev3.StreamAccessLogsMessage{LogEntries: &servicev3.StreamAccessLogsMessage_HttpLogs{
		HttpLogs: &servicev3.StreamAccessLogsMessage_HTTPAccessLogEntries{LogEntry: []*datav3.HTTPAccessLogEntry{e}},
	}}
}

func unchanged(*datav3.HTTPAccessLogEntry) {}

func parsed(t *testing.T, message proto.Message) []why.Request {
	t.Helper()
	bytes, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(bytes)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestParse(t *testing.T) {
	got := parsed(t, entry(unchanged))
	if len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
	want := why.Request{
		At: begin, Flags: []string{"UF", "URX"}, Code: 503, Method: "GET", Authority: "api", Path: "/b?token=…&n=…&=…", Client: "10.0.0.3:4000",
		Cluster: "outbound|8080||api.default.svc.cluster.local", Endpoint: "10.0.0.7:8080", Route: "r", Details: "upstream_reset",
		Reason: "delayed connect error: Connection refused", Tries: 3, Took: 1.5,
		Text: "GET api/b?token=…&n=…&=… of 10.0.0.3:4000 to api.default.svc.cluster.local:8080: the connection failed, at 10.0.0.7:8080: delayed connect error: Connection refused (3 tries)",
	}
	want.Instead = got[0].Instead
	if fmt.Sprintf("%+v", got[0]) != fmt.Sprintf("%+v", want) || !strings.Contains(want.Instead, "start the server") {
		t.Errorf("got  %+v\nwant %+v", got[0], want)
	}
	none := parsed(t, entry(func(e *datav3.HTTPAccessLogEntry) {
		e.CommonProperties.UpstreamCluster, e.CommonProperties.UpstreamRemoteAddress = "", nil
		e.CommonProperties.CustomTags = map[string]string{"cluster": "empty"}
	}))
	if len(none) != 1 || none[0].Cluster != "empty" {
		t.Errorf("without an endpoint: got %+v", none)
	}
	tcp := &servicev3.StreamAccessLogsMessage{LogEntries: &servicev3.StreamAccessLogsMessage_TcpLogs{TcpLogs: &servicev3.StreamAccessLogsMessage_TCPAccessLogEntries{
		LogEntry: []*datav3.TCPAccessLogEntry{{CommonProperties: &datav3.AccessLogCommon{ResponseFlags: &datav3.ResponseFlags{NoHealthyUpstream: true}, UpstreamCluster: "db"}}},
	}}}
	if got := parsed(t, tcp); len(got) != 1 || got[0].Text != "connection to cluster db: no endpoint was healthy" {
		t.Errorf("of TCP: got %+v", got)
	}
}

// Every flag that Envoy's schema has is known, with words for it.
func TestEveryFlagIsKnown(t *testing.T) {
	fields := (&datav3.ResponseFlags{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		message := (&datav3.ResponseFlags{}).ProtoReflect()
		if field.Kind() == protoreflect.BoolKind {
			message.Set(field, protoreflect.ValueOfBool(true))
		} else {
			message.Mutable(field)
		}
		got := parsed(t, entry(func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.ResponseFlags = message.Interface().(*datav3.ResponseFlags)
		}))
		if len(got) != 1 || len(got[0].Flags) != 1 {
			t.Errorf("%s: got %+v", field.Name(), got)
			continue
		}
		if flag := got[0].Flags[0]; flag != "RFCF" && (strings.Contains(got[0].Text, "Envoy answered") || got[0].Instead == "") {
			t.Errorf("%s (%s): no words: %q", field.Name(), flag, got[0].Text)
		}
	}
}

func TestRecordsWithoutFlags(t *testing.T) {
	for _, test := range []struct {
		code    uint32
		details string
		want    string // in the sentence; empty for no failure
		instead string
	}{
		{403, "rbac_access_denied_matched_policy[ns[a]-policy[p]-rule[0]]", "a policy does not allow it (rbac_access_denied_matched_policy[ns[a]-policy[p]-rule[0]])", "AuthorizationPolicy"},
		{401, "jwt_authn_access_denied{Jwt_is_missing}", "its token is missing", "RequestAuthentication"},
		{500, "via_upstream", "the server itself answered 500", "server's log"},
		{503, "direct_response", "Envoy answered 503 (direct_response)", "Envoy's log"},
		{403, "via_upstream", "", ""},
		{401, "via_upstream", "", ""},
	} {
		got := parsed(t, entry(func(e *datav3.HTTPAccessLogEntry) {
			e.CommonProperties.ResponseFlags, e.CommonProperties.UpstreamTransportFailureReason = nil, ""
			e.Response.ResponseCode, e.Response.ResponseCodeDetails = wrapperspb.UInt32(test.code), test.details
		}))
		switch {
		case test.want == "" && len(got) != 0:
			t.Errorf("%d %s: got %+v, want none", test.code, test.details, got)
		case test.want != "" && (len(got) != 1 || !strings.Contains(got[0].Text, test.want) || !strings.Contains(got[0].Instead, test.instead)):
			t.Errorf("%d %s: got %+v", test.code, test.details, got)
		}
	}
}

// A client writes what it likes into a request: a record is one line, bounded, and without what looks like a secret.
func TestAHostileRequest(t *testing.T) {
	huge := strings.Repeat("x", 60<<10)
	for _, path := range []string{
		"/" + huge, "/a\r\n12:00 200 GET /forged", "/a\x1b[31mred", "/a\u202egnp", "/\xff\xfe", "/?" + huge + "=1", "/?a=" + huge,
		"/?authorization=Bearer%20abcdefghijklmnopqrstuvwxyz",
	} {
		bytes, err := proto.MarshalOptions{}.Marshal(entry(func(e *datav3.HTTPAccessLogEntry) {
			e.Request.Path, e.Request.OriginalPath, e.Request.Authority = strings.ToValidUTF8(path, "?"), "", "h\n"+huge
			e.CommonProperties.UpstreamTransportFailureReason = "TLS_error:\n" + huge
		}))
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(bytes)
		if err != nil || len(got) != 1 {
			t.Fatalf("%.20q: got %d records, %v", path, len(got), err)
		}
		if r := got[0]; len(r.Text) > 1500 || strings.ContainsFunc(r.Text+r.Path+r.Authority+r.Reason, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("%.20q: %d bytes: %q", path, len(r.Text), r.Text)
		}
		if strings.Contains(got[0].Text, "abcdefgh") {
			t.Errorf("has a secret: %s", got[0].Text)
		}
	}
}

// A record with a time that is none stays one that can be told: as JSON, among all others.
func TestATimeThatIsNone(t *testing.T) {
	for _, at := range []*timestamppb.Timestamp{
		nil, {Seconds: -1}, {Seconds: 253402300800}, {Seconds: 253402300799, Nanos: 1e9}, {Seconds: 1 << 40}, {Seconds: 1<<63 - 1, Nanos: -1},
	} {
		got := parsed(t, entry(func(e *datav3.HTTPAccessLogEntry) { e.CommonProperties.StartTime = at }))
		if _, err := json.Marshal(got); len(got) != 1 || err != nil {
			t.Errorf("%v: %d records, %v", at, len(got), err)
		}
	}
}

func TestRing(t *testing.T) {
	r := &Ring{Since: begin}
	for i := range kept + 5 {
		r.add([]why.Request{{Code: i}})
	}
	r.fault()
	got := r.Report()
	if len(got.Requests) != kept || got.Requests[0].Code != 5 || got.Requests[kept-1].Code != kept+4 || got.Seen != kept+5 || got.Faults != 1 || got.Since != begin {
		t.Errorf("got %d from %d to %d, seen %d, faults %d", len(got.Requests), got.Requests[0].Code, got.Requests[kept-1].Code, got.Seen, got.Faults)
	}
}

// The wire format is tested against gRPC's own client.
func TestServer(t *testing.T) {
	ring := &Ring{}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "r.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server, done := frame.NewServer(ring, 10, slog.New(slog.DiscardHandler)), make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	conn, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Close()
		<-done
	})
	stream, err := servicev3.NewAccessLogServiceClient(conn).StreamAccessLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stream.Send(entry(unchanged)); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = stream.CloseAndRecv() // waits until all is read; there is no answer, which this client takes for an error and Envoy does not
	if got := ring.Report(); got.Seen != 3 || got.Faults != 0 {
		t.Errorf("got %+v", got)
	}
}

// A storm is left to Envoy, which drops and counts what it has no room for.
func TestPacer(t *testing.T) {
	p := pacer{began: begin}
	for i, step := range []struct {
		records int
		after   time.Duration
		want    time.Duration
	}{
		{999, 0, 0},
		{1, 100 * time.Millisecond, 900 * time.Millisecond},
		{1, time.Second, 0}, // another second
		{5000, 1500 * time.Millisecond, 500 * time.Millisecond},
		{1, 10 * time.Second, 0},
	} {
		if got := p.wait(step.records, begin.Add(step.after)); got != step.want {
			t.Errorf("step %d: got %v, want %v", i, got, step.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, change := range []func(*datav3.HTTPAccessLogEntry){unchanged, func(e *datav3.HTTPAccessLogEntry) { e.Request = nil }} {
		bytes, err := proto.Marshal(entry(change))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(bytes)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		got, _ := parse(message)
		if _, err := json.Marshal(got); err != nil {
			t.Error(err)
		}
		for _, r := range got {
			if len(r.Text) > 2000 || strings.ContainsFunc(r.Text, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%d bytes: %q", len(r.Text), r.Text)
			}
		}
	})
}
