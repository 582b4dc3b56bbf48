package why

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Cluster is what Envoy tells of a cluster beside its counters.
type Cluster struct {
	Name  string
	Hosts []Host

	// The limits of the default priority.
	MaxConnections, MaxPending, MaxRequests, MaxRetries int64
}

// Host is an endpoint of a cluster.
type Host struct {
	Address       string // "10.0.0.7:8080", or the path of a Unix socket
	ConnectFailed int64  // connections that failed, also in the TLS handshake
	TimedOut      int64  // requests
	Ejected       bool   // by outlier detection
	Unhealthy     bool   // by a health check, or by discovery
}

// count is a number that Envoy writes as a string, or leaves out if it is 0.
type count int64

func (c *count) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	if err != nil {
		return fmt.Errorf("count %.40s: want a number", text)
	}
	*c = count(n)
	return nil
}

type clustersDocument struct {
	Clusters []struct {
		Name  string `json:"name"`
		Hosts []struct {
			Address struct {
				Socket *struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
				Pipe *struct {
					Path string `json:"path"`
				} `json:"pipe"`
			} `json:"address"`
			Stats []struct {
				Name  string `json:"name"`
				Value count  `json:"value"`
			} `json:"stats"`
			Health struct {
				EDS     string `json:"eds_health_status"`
				Ejected bool   `json:"failed_outlier_check"`
				Failed  bool   `json:"failed_active_health_check"`
			} `json:"health_status"`
		} `json:"host_statuses"`
		Breakers struct {
			Thresholds []struct {
				Priority    string `json:"priority"`
				Connections count  `json:"max_connections"`
				Pending     count  `json:"max_pending_requests"`
				Requests    count  `json:"max_requests"`
				Retries     count  `json:"max_retries"`
			} `json:"thresholds"`
		} `json:"circuit_breakers"`
	} `json:"cluster_statuses"`
}

// Clusters parses Envoy's /clusters?format=json.
func Clusters(text []byte) (map[string]Cluster, error) {
	var document clustersDocument
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("parse Envoy's clusters: %w", err)
	}
	clusters := map[string]Cluster{}
	for _, c := range document.Clusters {
		out := Cluster{Name: c.Name}
		for _, h := range c.Hosts {
			host := Host{Ejected: h.Health.Ejected, Unhealthy: h.Health.Failed || h.Health.EDS == "UNHEALTHY"}
			switch {
			case h.Address.Socket != nil:
				host.Address = fmt.Sprintf("%s:%d", h.Address.Socket.Address, h.Address.Socket.Port)
				if strings.Contains(h.Address.Socket.Address, ":") {
					host.Address = fmt.Sprintf("[%s]:%d", h.Address.Socket.Address, h.Address.Socket.Port)
				}
			case h.Address.Pipe != nil:
				host.Address = h.Address.Pipe.Path
			}
			for _, s := range h.Stats {
				switch s.Name {
				case "cx_connect_fail":
					host.ConnectFailed = int64(s.Value)
				case "rq_timeout":
					host.TimedOut = int64(s.Value)
				}
			}
			out.Hosts = append(out.Hosts, host)
		}
		for _, t := range c.Breakers.Thresholds {
			if t.Priority == "" || t.Priority == "DEFAULT" {
				out.MaxConnections, out.MaxPending = int64(t.Connections), int64(t.Pending)
				out.MaxRequests, out.MaxRetries = int64(t.Requests), int64(t.Retries)
			}
		}
		clusters[c.Name] = out
	}
	return clusters, nil
}

// mostClusters is how many clusters are queried beside their counters: the names go into one request.
const mostClusters = 50

// ClusterFilter returns a regular expression for the clusters that counters name, those with the highest counts first; empty for
// none.
func ClusterFilter(counters map[string]int64) string {
	most := map[string]int64{}
	for name, value := range counters {
		if c, where, found := causeOf(name); found && c.kind == ofCluster {
			most[where] = max(most[where], value)
		}
	}
	maps.DeleteFunc(most, func(name string, _ int64) bool { return !utf8.ValidString(name) }) // no regular expression names it
	names := sortedByCount(most)
	names = names[:min(len(names), mostClusters)]
	for i, name := range names {
		names[i] = regexp.QuoteMeta(name)
	}
	if len(names) == 0 {
		return ""
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

func sortedByCount(counts map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}
