package envoy

import (
	"testing"

	"github.com/pilotlight/pilotlight/agent/health"
)

// A stream that is open has not ended.
func TestLinkOf(t *testing.T) {
	for _, test := range []struct {
		name          string
		total, active int64
		want          int64
	}{
		{"none", 0, 0, 0},
		{"one is open", 1, 1, 0},
		{"two have ended, one is open", 3, 1, 2},
		{"two have ended", 2, 0, 2},
	} {
		got := linkOf(map[string]int64{
			discoveryCluster + "membership_total": 1, discoveryCluster + "upstream_cx_active": 1,
			discoveryCluster + "upstream_rq_total": test.total, discoveryCluster + "upstream_rq_active": test.active,
		})
		if want := (health.Link{Hosts: 1, Connected: 1, Ended: test.want}); got != want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, want)
		}
	}
}
