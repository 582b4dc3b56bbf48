package envoy

import (
	"maps"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
)

// The names are Envoy 1.40's own.
func TestInFlight(t *testing.T) {
	const idle = `
http.admin.downstream_cx_active: 1
http.admin.downstream_rq_active: 1
listener.admin.downstream_cx_active: 1
listener.admin.main_thread.downstream_cx_active: 1
`
	for _, test := range []struct {
		name, stats string
		want        int64
	}{
		{"nothing but the question itself", idle, 0},
		{"an idle kept connection", idle + `
http.inbound.downstream_cx_active: 1
http.inbound.downstream_rq_active: 0
listener.127.0.0.1_80.downstream_cx_active: 1
listener.127.0.0.1_80.worker_0.downstream_cx_active: 1
`, 0},
		{"a probe and a scrape", idle + `
http.agent_readiness.downstream_cx_active: 1
http.agent_readiness.downstream_rq_active: 1
listener.agent_readiness.downstream_cx_active: 1
listener.agent_prometheus.downstream_cx_active: 1
listener.agent_prometheus.worker_0.downstream_cx_active: 1
`, 0},
		{"a request", idle + `
http.inbound.downstream_cx_active: 1
http.inbound.downstream_rq_active: 1
listener.127.0.0.1_80.downstream_cx_active: 1
listener.127.0.0.1_80.worker_1.downstream_cx_active: 1
`, 1},
		{"two streams of a connection", idle + `
http.inbound.downstream_cx_active: 1
http.inbound.downstream_rq_active: 2
listener.127.0.0.1_80.downstream_cx_active: 1
`, 2},
		{"a TCP connection, and an idle kept one elsewhere", idle + `
http.outbound_0.0.0.0_80;.downstream_cx_active: 1
listener.0.0.0.0_80.downstream_cx_active: 1
listener.0.0.0.0_80.worker_0.downstream_cx_active: 1
listener.[__1]_3306.downstream_cx_active: 1
listener.[__1]_3306.worker_0.downstream_cx_active: 1
`, 1},
		{"a name of its own that looks like a worker's", idle + `
listener.worker_a.downstream_cx_active: 1
listener.worker_a.worker_0.downstream_cx_active: 1
`, 1},
		{"a connection gone between the two counts", "http.inbound.downstream_cx_active: 1\nhttp.inbound.downstream_rq_active: 1", 1},
		{"none of these", "http.inbound.downstream_rq_total: 7\ncluster.a.upstream_rq_active: 3", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := work(parseStats(test.stats)).InFlight; got != test.want {
				t.Errorf("inFlight: got %d, want %d", got, test.want)
			}
		})
	}
}

func TestParseStats(t *testing.T) {
	got := parseStats("a.b: 1\na.text: \"x: 2\"\na.negative: -3\na.version: 17241709254077376921\na.histogram: P0(nan,1) P25(nan,1)\nno value\n\n")
	if want := map[string]int64{"a.b": 1, "a.negative": -3, "a.version": -1205034819632174695}; !maps.Equal(got, want) {
		t.Errorf("parseStats: got %v, want %v", got, want)
	}
}

func TestReceived(t *testing.T) {
	for _, test := range []struct {
		name, stats string
		want        Received
	}{
		{"nothing yet", "", Received{}},
		{"discovery is there", "control_plane.connected_state: 1", Received{Discovery: health.DiscoveryConnected}},
		{"discovery is lost", "control_plane.connected_state: 0", Received{Discovery: health.DiscoveryLost}},
		{"one bad cluster of several", "cluster_manager.cds.update_rejected: 1", Received{CDS: Updates{Rejected: 1}}},
		{
			"all", "cluster_manager.cds.update_success: 2\nlistener_manager.lds.update_success: 3\n" +
				"listener_manager.lds.update_rejected: 1\nlistener_manager.workers_started: 1\nlistener_manager.total_listeners_active: 4\n" +
				"listener_manager.lds.update_time: 1795295176965\nlistener_manager.listener_create_failure: 5",
			Received{
				CDS: Updates{Success: 2}, LDS: Updates{Success: 3, Rejected: 1, Accepted: time.UnixMilli(1795295176965)},
				WorkersStarted: true, Listeners: 4, CreateFailures: 5,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := received(parseStats(test.stats)); got != test.want {
				t.Errorf("received: got %+v, want %+v", got, test.want)
			}
		})
	}
}
