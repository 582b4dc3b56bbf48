package xds

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/node"
)

// A proxy whose agent takes no reports has the listeners of before; one whose does pays a bounded number of bytes.
func TestReports(t *testing.T) {
	for _, test := range []struct {
		what node.Reports
		logs int
	}{{"", 0}, {node.ReportNothing, 0}, {node.ReportFailures, 1}, {node.ReportRequests, 2}, {"true", 0}} {
		o := observed{reports: bySource.reports(test.what)}
		if len(o.httpLogs()) != test.logs || len(o.tcpLogs()) != test.logs {
			t.Errorf("%q has %v, and for TCP %v", test.what, o.httpLogs(), o.tcpLogs())
		}
	}
	for _, by := range []reporter{bySource, byDestination} {
		o := observed{reports: by.reports(node.ReportRequests)}
		for what, logs := range map[string]int{"HTTP": len(o.httpLogs()), "TCP": len(o.tcpLogs())} {
			if logs != 2 {
				t.Errorf("%s of %s: %d logs", what, by, logs)
			}
		}
		http, tcp := 0, 0
		for _, log := range o.httpLogs() {
			http += proto.Size(log)
		}
		for _, log := range o.tcpLogs() {
			tcp += proto.Size(log)
		}
		t.Logf("%s: %d bytes for HTTP, %d for TCP", by, http, tcp)
		if http > 2500 || tcp > 2500 {
			t.Errorf("%s: %d bytes for HTTP, %d for TCP", by, http, tcp)
		}
		if o.same(observed{}) || o.same(observed{reports: by.reports(node.ReportFailures)}) || !o.same(observed{reports: by.reports(node.ReportRequests)}) {
			t.Errorf("%s: the same listeners are not recognised", by)
		}
	}
}
