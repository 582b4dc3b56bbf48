package xds

import (
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	accesslogdatav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/node"
)

// Every line ends with a newline, also if its format does not; configured fields replace the default ones.
func TestAccessLogFormat(t *testing.T) {
	format := func(c *meshconfig.MeshConfig) (text string, fields map[string]any) {
		c.AccessLogFile = "/dev/stdout"
		var log filelogv3.FileAccessLog
		if err := accessLogs(model.Settings{Config: c})[0].GetTypedConfig().UnmarshalTo(&log); err != nil {
			t.Fatal(err)
		}
		return log.GetLogFormat().GetTextFormatSource().GetInlineString(), log.GetLogFormat().GetJsonFormat().AsMap()
	}
	for given, want := range map[string]string{"%PROTOCOL%": "%PROTOCOL%\n", "a\n": "a\n", "": logFormat} {
		if got, _ := format(&meshconfig.MeshConfig{AccessLogFormat: given}); got != want {
			t.Errorf("%q: the line is %q, want %q", given, got, want)
		}
	}
	for given, want := range map[string]map[string]any{`{"a": "%PROTOCOL%"}`: {"a": "%PROTOCOL%"}, "": logFields()} {
		_, got := format(&meshconfig.MeshConfig{AccessLogFormat: given, AccessLogEncoding: meshconfig.MeshConfig_JSON})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", given, diff)
		}
	}
}

// A proxy whose agent takes no reports has the listeners of before; one whose does pays a bounded number of bytes.
func TestReports(t *testing.T) {
	for _, test := range []struct {
		what      node.Reports
		logs, tcp int
	}{{"", 0, 0}, {node.ReportNothing, 0, 0}, {node.ReportFailures, 1, 1}, {node.ReportRequests, 2, 3}, {"true", 0, 0}} {
		o := observed{reports: bySource.reports(test.what)}
		if n := len(o.reports.refused); n != min(test.logs, 1) {
			t.Errorf("%q has %d logs of refused connections", test.what, n)
		}
		if len(o.httpLogs()) != test.logs || len(o.tcpLogs()) != test.tcp {
			t.Errorf("%q has %v, and for TCP %v", test.what, o.httpLogs(), o.tcpLogs())
		}
	}
	for _, by := range []reporter{bySource, byDestination} {
		o := observed{reports: by.reports(node.ReportRequests)}
		if len(o.httpLogs()) != 2 || len(o.tcpLogs()) != 3 {
			t.Errorf("%s: %d logs of HTTP, %d of TCP", by, len(o.httpLogs()), len(o.tcpLogs()))
		}
		http, tcp := 0, 0
		for _, log := range o.httpLogs() {
			http += proto.Size(log)
		}
		for _, log := range o.tcpLogs() {
			tcp += proto.Size(log)
		}
		l := &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{}}}
		if o.addRefused(l); len(l.AccessLog) > 0 {
			t.Errorf("%s: a listener of plain text has %v", by, l.AccessLog)
		}
		l.FilterChains[0].TransportSocket = &corev3.TransportSocket{}
		before := proto.Size(l)
		if o.addRefused(l); len(l.AccessLog) != 1 || proto.Size(l)-before > 750 {
			t.Errorf("%s: a listener of TLS has %d bytes of %v", by, proto.Size(l)-before, l.AccessLog)
		}
		t.Logf("%s: %d bytes for a listener of TLS", by, proto.Size(l)-before)
		t.Logf("%s: %d bytes for HTTP, %d for TCP", by, http, tcp)
		if http > 2500 || tcp > 2500 {
			t.Errorf("%s: %d bytes for HTTP, %d for TCP", by, http, tcp)
		}
		if o.same(observed{}) || o.same(observed{reports: by.reports(node.ReportFailures)}) || !o.same(observed{reports: by.reports(node.ReportRequests)}) {
			t.Errorf("%s: the same listeners are not recognised", by)
		}
	}
}

// Connections are logged at their beginning for the counts alone: the mesh's own log has each once, as without the counts.
func TestAConnectionIsLoggedOnce(t *testing.T) {
	own := []*accesslogv3.AccessLog{fileLog(&filelogv3.FileAccessLog{Path: "/dev/stdout"})}
	for what, options := range map[node.Reports]bool{node.ReportNothing: false, node.ReportFailures: false, node.ReportRequests: true} {
		o := observed{logs: own, reports: bySource.reports(what)}
		if got := o.tcpOptions().GetFlushAccessLogOnConnected(); got != options {
			t.Errorf("%s: connections are logged when they are made: %t", what, got)
		}
		log := o.tcpLogs()[0]
		types := log.GetFilter().GetLogTypeFilter()
		if log.Name != own[0].Name || options != (len(types.GetTypes()) == 1 && types.Types[0] == accesslogdatav3.AccessLogType_TcpConnectionEnd && !types.Exclude) {
			t.Errorf("%s: the mesh's own log is %v", what, log)
		}
		if own[0].Filter != nil || o.httpLogs()[0] != own[0] {
			t.Errorf("%s: the log of HTTP has changed: %v", what, own[0])
		}
	}
}
