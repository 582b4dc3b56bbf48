package records

import (
	"strings"
	"testing"

	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// A listener's own record has its address in a tag, and the reason of the client's TLS, whose last words say most.
func TestParseOfAListener(t *testing.T) {
	reason := "TLS_error:|268435581:" + strings.Repeat("x", 180) + ":certificate_has_expired:TLS_error_end"
	e := &datav3.TCPAccessLogEntry{CommonProperties: &datav3.AccessLogCommon{
		StartTime: timestamppb.New(begin), DownstreamRemoteAddress: socketAddress("10.0.0.3", 4000), DownstreamTransportFailureReason: reason,
		CustomTags: map[string]string{"listener": "10.0.0.1:8080"},
	}}
	got := parsed(t, &servicev3.StreamAccessLogsMessage{LogEntries: &servicev3.StreamAccessLogsMessage_TcpLogs{
		TcpLogs: &servicev3.StreamAccessLogsMessage_TCPAccessLogEntries{LogEntry: []*datav3.TCPAccessLogEntry{e}},
	}})
	if len(got) != 1 || got[0].Listener != "10.0.0.1:8080" || got[0].Client != "10.0.0.3:4000" || got[0].Reason != reason ||
		!strings.HasPrefix(got[0].Text, "handshake of 10.0.0.3:4000 at 10.0.0.1:8080 failed: the client's certificate has expired: TLS_error") {
		t.Errorf("got %+v", got)
	}
}
