package xds

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

// A proxy whose agent takes no reports has the listeners of before; one whose does pays a bounded number of bytes.
func TestReports(t *testing.T) {
	if o := (observed{reports: nobody.reports()}); len(o.httpLogs())+len(o.tcpLogs()) != 0 {
		t.Errorf("nobody has %v", o.httpLogs())
	}
	for _, by := range []reporter{bySource, byDestination} {
		o := observed{reports: by.where(true).reports()}
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
		if o.same(observed{}) || !o.same(observed{reports: by.reports()}) {
			t.Errorf("%s: the same listeners are not recognised", by)
		}
	}
}
