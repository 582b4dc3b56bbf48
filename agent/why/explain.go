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
	"unicode"
	"unicode/utf8"
)

// Finding is one cause for which requests or connections failed.
type Finding struct {
	Flag    string `json:"flag,omitempty"` // Envoy's response flag, such as UO; empty where it has none
	Kind    string `json:"kind"`           // what Where names: cluster, listener, or http and tcp for a stat prefix
	Where   string `json:"where"`          // in Envoy's words: outbound|8080||api.default.svc.cluster.local
	Counter string `json:"counter"`        // its full name
	What    string `json:"what"`           // is counted: request, connection, try, retry, endpoint
	Count   int64  `json:"count"`          // since the Envoy's start; of ejected endpoints: now
	Text    string `json:"text"`           // a sentence
	Instead string `json:"instead"`        // what to do
}

// Bounds of an answer, for any text of an Envoy.
const (
	mostFindings = 200
	mostHosts    = 3 // that a sentence names
	longestName  = 200
)

// subject is what a sentence is about.
type subject struct {
	count   int64
	cluster Cluster // zero if it is not known
	known   bool
}

// ignored are the places that are no part of the data plane.
var ignored = []string{"admin", "admin.main_thread", "agent_prometheus", "agent_readiness", "sds-grpc", "agent_records"}

// Explain returns the causes that counters show, the most frequent first, and how many more there are.
func Explain(counters map[string]int64, clusters map[string]Cluster) (findings []Finding, more int) {
	findings = []Finding{}
	for name, count := range counters {
		c, where, found := causeOf(name)
		if !found || count <= 0 || slices.Contains(ignored, where) {
			continue
		}
		cluster, known := clusters[where]
		s := subject{count, cluster, known && c.kind == ofCluster}
		findings = append(findings, Finding{
			Flag: c.flag, Kind: string(c.kind), Where: printable(where), Counter: printable(name), What: c.what, Count: count,
			Text:    fmt.Sprintf("%s %s: %s", plural(count, c.what), place(c.kind, printable(where)), c.tell(s)),
			Instead: c.remedy(where),
		})
	}
	findings = slices.DeleteFunc(findings, func(f Finding) bool { return repeats(f, counters) })
	sortFindings(findings)
	more = max(0, len(findings)-mostFindings)
	return findings[:len(findings)-more], more
}

// repeats reports whether another counter tells the same failures with more of their cause: a handshake that failed is a connection
// that failed too.
func repeats(f Finding, counters map[string]int64) bool {
	base, isConnect := strings.CutSuffix(f.Counter, "upstream_cx_connect_fail")
	if !isConnect {
		return false
	}
	var handshakes int64
	for _, check := range []string{"connection_error", "fail_verify_error", "fail_verify_san", "fail_verify_no_cert"} {
		handshakes = max(handshakes, counters[base+"ssl."+check])
	}
	return handshakes >= f.Count
}

func sortFindings(findings []Finding) {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Counter, b.Counter))
	})
}

// Since returns the findings of now with what came after before. Endpoints that are ejected now stay. Counters that are lower than
// before are of another Envoy, and count whole. What an answer had no room for had at most the least of its counts.
func Since(now, before []Finding) []Finding {
	earlier, unseen := map[string]int64{}, int64(0)
	if len(before) >= mostFindings {
		unseen = before[len(before)-1].Count
	}
	for _, f := range before {
		earlier[f.Counter] = f.Count
	}
	out := []Finding{}
	for _, f := range now {
		was, seen := earlier[f.Counter]
		if !seen {
			was = min(unseen, f.Count)
		}
		if !strings.HasSuffix(f.Counter, "ejections_active") && f.Count >= was {
			rest := strings.TrimPrefix(f.Text, plural(f.Count, f.What))
			f.Count -= was
			f.Text = plural(f.Count, f.What) + rest
		}
		if f.Count > 0 {
			out = append(out, f)
		}
	}
	sortFindings(out)
	return out
}

// remedy is in the words of the configuration that has made the place: discovery's names of clusters have three bars.
func (c cause) remedy(where string) string {
	to := called(printable(where))
	switch {
	case c.kind == ofCluster && strings.Count(where, "|") != 3:
		return cmp.Or(c.own, c.instead)
	case c.kind == ofCluster && to != "":
		return strings.Replace(c.instead, hostAndPort, to, 1)
	}
	return c.instead
}

// hostAndPort stands in a remedy for those of an outbound cluster.
const hostAndPort = "HOST:PORT"

// called is the service and port that a cluster of discovery calls, as HOST:PORT; "" for another one.
func called(cluster string) string {
	parts := strings.Split(cluster, "|")
	if len(parts) != 4 || parts[0] != "outbound" {
		return ""
	}
	return parts[3] + ":" + parts[1]
}

// To is the service and port that a finding is about, as HOST:PORT, if discovery has made its cluster and another workload is called; else "".
func (f Finding) To() string {
	if f.Kind != string(ofCluster) {
		return ""
	}
	return called(f.Where)
}

// place names a place in words.
func place(k kind, where string) string {
	parts := strings.Split(where, "|")
	switch {
	case k == ofListener:
		return "at listener " + where
	case k != ofCluster:
		return "at " + where
	case where == "BlackHoleCluster":
		return "to an address that no service has"
	case where == "PassthroughCluster":
		return "to an address that no service has, passed through"
	case len(parts) != 4:
		return "to cluster " + where
	case parts[0] == "inbound":
		return "to this workload's port " + parts[1]
	case parts[2] != "":
		return fmt.Sprintf("to %s:%s, subset %s", parts[3], parts[1], parts[2])
	}
	return fmt.Sprintf("to %s:%s", parts[3], parts[1])
}

func overflow(s subject) string {
	if !s.known {
		return "not sent, since its limits are reached"
	}
	return fmt.Sprintf("not sent, since its limits are reached: %s, %s, %s under way", plural(s.cluster.MaxPending, "waiting request"),
		plural(s.cluster.MaxConnections, "connection"), plural(s.cluster.MaxRequests, "request"))
}

func retryOverflow(s subject) string {
	if !s.known {
		return "not made, since too many others were under way"
	}
	return fmt.Sprintf("not made, since its limit is %d at a time", s.cluster.MaxRetries)
}

func noneHealthy(s subject) string {
	ejected, unhealthy := hosts(s, func(h Host) bool { return h.Ejected }), hosts(s, func(h Host) bool { return h.Unhealthy })
	switch {
	case !s.known:
		return "no endpoint is healthy"
	case len(s.cluster.Hosts) == 0:
		return "it has no endpoint"
	case ejected != "" && unhealthy != "":
		return "no endpoint was healthy; ejected now: " + ejected + "; unhealthy: " + unhealthy
	case ejected != "":
		return "no endpoint was healthy; ejected now: " + ejected
	case unhealthy != "":
		return "no endpoint was healthy; unhealthy now: " + unhealthy
	}
	return "no endpoint was healthy; all are now"
}

func connectFailed(s subject) string {
	if failed := hosts(s, func(h Host) bool { return h.ConnectFailed > 0 }); failed != "" {
		return "refused, or not accepted within the connect timeout, by " + failed
	}
	return "refused, or not accepted within the connect timeout"
}

func timedOut(s subject) string {
	if slow := hosts(s, func(h Host) bool { return h.TimedOut > 0 }); slow != "" {
		return "not answered within the route's timeout by " + slow
	}
	return "not answered within the route's timeout"
}

func ejected(s subject) string {
	if out := hosts(s, func(h Host) bool { return h.Ejected }); out != "" {
		return fmt.Sprintf("ejected for errors now: %s, of %d", out, len(s.cluster.Hosts))
	}
	return "ejected for errors now"
}

// hosts names a few of the hosts that fit: "10.0.0.7:80, 10.0.0.8:80 and 3 more".
func hosts(s subject, fits func(Host) bool) string {
	var names []string
	more := 0
	for _, h := range s.cluster.Hosts {
		switch {
		case !fits(h):
		case len(names) < mostHosts:
			names = append(names, printable(h.Address))
		default:
			more++
		}
	}
	text := strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// plural counts things: "1 request", "2 tries".
func plural(n int64, what string) string {
	switch stem, y := strings.CutSuffix(what, "y"); {
	case n == 1:
	case y:
		what = stem + "ies"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// printable makes one line of bounded length of a name.
func printable(name string) string { return oneLine(name, longestName) }

// oneLine makes one line of at most that many bytes of a text.
func oneLine(text string, most int) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) { // also what turns the direction of writing round
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), most)], "?"))
}

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
