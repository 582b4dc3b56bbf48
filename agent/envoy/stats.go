package envoy

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/health"
)

// Stats returns the counters and gauges that have ever changed and whose name a regular expression matches. A statistic
// that is absent is 0: to leave those out halves the time that Envoy's main thread spends on the answer.
func (a *Admin) Stats(ctx context.Context, filter string) (map[string]int64, error) {
	body, err := a.get(ctx, "/stats?usedonly&filter="+url.QueryEscape(filter))
	if err != nil {
		return nil, err
	}
	return parseStats(string(body)), nil
}

// parseStats reads lines of "name: number". Text readouts and histograms, which have no number there, are left out.
// Envoy writes no colon into a name. A version is a hash of 64 bits, and may come out negative.
func parseStats(text string) map[string]int64 {
	stats := map[string]int64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if number, err := strconv.ParseInt(value, 10, 64); err == nil {
			stats[name] = number
		} else if version, err := strconv.ParseUint(value, 10, 64); err == nil {
			stats[name] = int64(version)
		}
	}
	return stats
}

// Updates counts the accepted and the rejected responses of one type. Envoy counts a response with one bad resource as
// rejected, though it accepts the good resources in it.
type Updates struct {
	Success, Rejected int64
	Accepted          time.Time // the last success, to the millisecond; zero for none
}

// Received counts the configuration that Envoy has received since its start.
type Received struct {
	CDS, LDS       Updates
	WorkersStarted bool
	Listeners      int64 // active; a listener that has begun to close stays active
	Discovery      health.Discovery
	Stopped        int64 // listeners that have begun to close, at the request of any client
	CreateFailures int64 // listeners that could not be created: malformed, or on a port that is in use
}

// Received returns all of it with one query.
func (a *Admin) Received(ctx context.Context) (Received, error) {
	stats, err := a.Stats(ctx, `^(cluster_manager\.cds|listener_manager\.lds)\.update_(success|rejected|time)$|`+
		`^listener_manager\.(workers_started|total_listeners_active|listener_create_failure|listener_stopped)$|^control_plane\.connected_state$`)
	return received(stats), err
}

func received(stats map[string]int64) Received {
	updates := func(prefix string) Updates {
		u := Updates{Success: stats[prefix+".update_success"], Rejected: stats[prefix+".update_rejected"]}
		if at := stats[prefix+".update_time"]; at > 0 {
			u.Accepted = time.UnixMilli(at)
		}
		return u
	}
	return Received{
		CDS:            updates("cluster_manager.cds"),
		LDS:            updates("listener_manager.lds"),
		WorkersStarted: stats["listener_manager.workers_started"] > 0,
		Listeners:      stats["listener_manager.total_listeners_active"],
		Discovery:      discoveryIn(stats),
		Stopped:        stats["listener_manager.listener_stopped"],
		CreateFailures: stats["listener_manager.listener_create_failure"],
	}
}

// discoveryIn returns the state of the stream to discovery; empty where the bootstrap has no such stream.
func discoveryIn(stats map[string]int64) health.Discovery {
	switch connected, known := stats["control_plane.connected_state"]; {
	case !known:
		return ""
	case connected == 0:
		return health.DiscoveryLost
	}
	return health.DiscoveryConnected
}

// stats returns the counts under Envoy's names.
func (r Received) stats() map[string]int64 {
	return map[string]int64{
		"cluster_manager.cds.update_success": r.CDS.Success, "cluster_manager.cds.update_rejected": r.CDS.Rejected,
		"listener_manager.lds.update_success": r.LDS.Success, "listener_manager.lds.update_rejected": r.LDS.Rejected,
		"listener_manager.total_listeners_active": r.Listeners, "listener_manager.listener_create_failure": r.CreateFailures,
	}
}

// Work counts the requests and connections of downstream clients.
type Work struct {
	InFlight    int64 // requests and connections that would be cut if Envoy ended now: see work
	Connections int64 // open ones, also those that carry nothing now
	Begun       int64 // requests and connections since the start
}

// Work queries the current counts.
func (a *Admin) Work(ctx context.Context) (Work, error) {
	stats, err := a.Stats(ctx, `^(http|listener)\..+\.downstream_(cx|rq)_(active|total)$`)
	return work(stats), err
}

// ownPrefixes are the stat prefixes of the listeners that are no part of the data plane: Envoy's admin, the
// bootstrap's listeners for probes and scrapes, and the gate.
var ownPrefixes = []string{"admin", "admin.main_thread", "agent_prometheus", "agent_readiness", gateName}

// work adds up the listeners and HTTP connection managers of the data plane. In flight are HTTP requests, streams and
// upgraded connections, and all connections that carry another protocol; an HTTP connection without a request is not in
// flight. Two statistics count an HTTP connection from the moment it is accepted: its listener's and its HTTP
// connection manager's. A connection that only the listener counts is not HTTP.
func work(stats map[string]int64) Work {
	var w Work
	var notHTTP int64
	for name, value := range stats {
		kind, rest, _ := strings.Cut(name, ".")
		dot := strings.LastIndexByte(rest, '.')
		prefix, what := rest[:max(0, dot)], rest[dot+1:]
		if slices.Contains(ownPrefixes, prefix) || kind == "listener" && ofWorker(prefix) {
			continue
		}
		switch kind + " " + what {
		case "http downstream_rq_active":
			w.InFlight += value
		case "http downstream_cx_active":
			notHTTP -= value
		case "listener downstream_cx_active":
			notHTTP += value
			w.Connections += value
		case "http downstream_rq_total", "listener downstream_cx_total":
			w.Begun += value
		}
	}
	w.InFlight += max(0, notHTTP) // the counts are not of the same moment
	return w
}

// ofWorker reports whether a listener's prefix is that of one worker's share, as in "10.0.0.1_80.worker_3".
func ofWorker(listener string) bool {
	_, number, found := strings.Cut(listener[strings.LastIndexByte(listener, '.')+1:], "worker_")
	_, err := strconv.Atoi(number)
	return found && err == nil
}

// Clusters returns /clusters as JSON, with the clusters whose name a regular expression matches.
func (a *Admin) Clusters(ctx context.Context, filter string) ([]byte, error) {
	return a.get(ctx, "/clusters?format=json&filter="+url.QueryEscape(filter))
}
