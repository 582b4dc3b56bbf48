package why

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const (
	api    = "outbound|8080||api.default.svc.cluster.local"
	subset = "outbound|8080|v1|api.default.svc.cluster.local"
)

func TestExplain(t *testing.T) {
	limited := Cluster{MaxPending: 1, MaxConnections: 1, MaxRequests: 1024, MaxRetries: 3}
	of := func(hosts ...Host) Cluster { return Cluster{Hosts: hosts} }
	for _, test := range []struct {
		name     string
		counter  string
		count    int64
		clusters map[string]Cluster
		want     string // "FLAG sentence"
		instead  string // a part of it
	}{
		{
			"overflow", "cluster." + api + ".upstream_rq_pending_overflow", 4,
			map[string]Cluster{api: limited},
			"UO 4 requests to api.default.svc.cluster.local:8080: not sent, since its limits are reached: 1 waiting request, 1 connection, 1024 requests under way",
			"http1MaxPendingRequests",
		},
		{
			"overflow at a cluster that /clusters lacks", "cluster.api.upstream_rq_pending_overflow", 1, nil,
			"UO 1 request to cluster api: not sent, since its limits are reached", "circuit_breakers of the cluster",
		},
		{
			"retries", "cluster.api.upstream_rq_retry_overflow", 2,
			map[string]Cluster{"api": limited},
			"UO 2 retries to cluster api: not made, since its limit is 3 at a time", "max_retries in circuit_breakers",
		},
		{
			"a refused connection", "cluster." + subset + ".upstream_cx_connect_fail", 1,
			map[string]Cluster{subset: of(Host{Address: "10.0.0.7:8080", ConnectFailed: 1}, Host{Address: "10.0.0.8:8080"})},
			"UF 1 connection to api.default.svc.cluster.local:8080, subset v1: refused, or not accepted within the connect timeout, by 10.0.0.7:8080",
			"have it listen at that address",
		},
		{
			"many endpoints", "cluster.api.upstream_cx_connect_fail", 5,
			map[string]Cluster{"api": of(Host{"a:1", 1, 0, false, false}, Host{"b:1", 1, 0, false, false}, Host{"c:1", 1, 0, false, false}, Host{"d:1", 1, 0, false, false}, Host{"e:1", 1, 0, false, false})},
			"UF 5 connections to cluster api: refused, or not accepted within the connect timeout, by a:1, b:1, c:1 and 2 more", "",
		},
		{
			"another identity", "cluster." + subset + ".ssl.fail_verify_san", 1, nil,
			"UF 1 connection to api.default.svc.cluster.local:8080, subset v1: Envoy refused the server's certificate: it has another name than the one that is expected",
			"discovery explain --from WORKLOAD --to api.default.svc.cluster.local:8080",
		},
		{"another name, without a mesh", "cluster.api.ssl.fail_verify_san", 1, nil, "UF 1 connection to cluster api: Envoy refused the server's certificate: it has another name than the one that is expected", "match_typed_subject_alt_names"},
		{"no endpoint", "cluster.api.upstream_cx_none_healthy", 1, map[string]Cluster{"api": {}}, "UH 1 request to cluster api: it has no endpoint", "start an endpoint"},
		{
			"all ejected", "cluster.api.upstream_cx_none_healthy", 1,
			map[string]Cluster{"api": of(Host{Address: "10.0.0.7:80", Ejected: true})},
			"UH 1 request to cluster api: no endpoint was healthy; ejected now: 10.0.0.7:80", "",
		},
		{
			"all unhealthy", "cluster.api.upstream_cx_none_healthy", 1,
			map[string]Cluster{"api": of(Host{Address: "10.0.0.7:80", Unhealthy: true})},
			"UH 1 request to cluster api: no endpoint was healthy; unhealthy now: 10.0.0.7:80", "",
		},
		{
			"ejected", "cluster.api.outlier_detection.ejections_active", 1,
			map[string]Cluster{"api": of(Host{Address: "10.0.0.7:80", Ejected: true}, Host{Address: "10.0.0.8:80"})},
			" 1 endpoint to cluster api: ejected for errors now: 10.0.0.7:80, of 2", "outlier_detection of the cluster",
		},
		{
			"too slow", "cluster.inbound|8080||.upstream_rq_timeout", 2,
			map[string]Cluster{"inbound|8080||": of(Host{Address: "127.0.0.1:8080", TimedOut: 2})},
			"UT 2 requests to this workload's port 8080: not answered within the route's timeout by 127.0.0.1:8080", "timeout of the VirtualService's route",
		},
		{"no route", "http.outbound_0.0.0.0_8080.no_route", 1, nil, "NR 1 request at outbound_0.0.0.0_8080: no route matches", "VirtualServices of that port"},
		{"no cluster", "http.x.no_cluster", 1, nil, "NC 1 request at x: the route leads to a cluster that Envoy does not have", "/debug/notes"},
		{"closed", "cluster.api.upstream_cx_destroy_remote_with_active_rq", 1, nil, "UC 1 connection to cluster api: the server closed it while a request was under way", "idle_timeout"},
		{"left", "http.x.downstream_rq_rx_reset", 3, nil, "DC 3 requests at x: the client left before its answer came", "client's time limit"},
		{
			"no TLS at the server", "cluster." + api + ".ssl.connection_error", 1, nil,
			"UF 1 connection to api.default.svc.cluster.local:8080: the TLS handshake failed: the server does not speak TLS, or has ended it with an alert", "DISABLE",
		},
		{
			"no TLS at the client", "listener.0.0.0.0_15006.ssl.connection_error", 1, nil,
			" 1 connection at listener 0.0.0.0_15006: a client's TLS handshake failed: it speaks plain text, or has refused this server's certificate", "PERMISSIVE",
		},
		{"a black hole", "cluster.BlackHoleCluster.upstream_cx_none_healthy", 1, nil, "UH 1 request to an address that no service has: no endpoint is healthy", ""},
		{"retried in vain", "cluster.api.upstream_rq_retry_limit_exceeded", 1, nil, "URX 1 request to cluster api: each try failed, and no retry was left", ""},
		{"refused by a policy", "http.inbound_0.0.0.0_8080.rbac.denied", 1, nil, " 1 request at inbound_0.0.0.0_8080: a policy does not allow it (403)", "AuthorizationPolicy"},
		{"a limit", "http.x.http_local_rate_limit.rate_limited", 1, nil, "RL 1 request at x: the local rate limit is used up (429)", "token_bucket"},
		{"a limit by a service", "cluster.api.ratelimit.over_limit", 1, nil, "RL 1 request to cluster api: the rate limit service refused it (429)", ""},
		{"a limit of the filter's own prefix", "limiter.http_local_rate_limit.rate_limited", 1, nil, "RL 1 request at limiter: the local rate limit is used up (429)", "token_bucket"},
		{"refused outside", "http.x.ext_authz.denied", 1, nil, "UAEX 1 request at x: the external authorization server refused it", ""},
		{"nothing", "http.x.no_route", 0, nil, "", ""},
		{"the admin's", "http.admin.no_route", 1, nil, "", ""},
		{"another counter", "cluster.api.upstream_rq_total", 1, nil, "", ""},
		{"no name", "cluster..no_route", 1, nil, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, _ := Explain(map[string]int64{test.counter: test.count}, test.clusters)
			if test.want == "" {
				if len(got) != 0 {
					t.Errorf("got %+v, want nothing", got)
				}
				return
			}
			if len(got) != 1 || got[0].Flag+" "+got[0].Text != test.want {
				t.Fatalf("got %+v, want %q", got, test.want)
			}
			if !strings.Contains(got[0].Instead, test.instead) {
				t.Errorf("instead %q, want %q in it", got[0].Instead, test.instead)
			}
		})
	}
}

// A handshake that failed is a connection that failed too: only the finding with the cause stays.
func TestAHandshakeIsToldOnce(t *testing.T) {
	counters := map[string]int64{"cluster.api.upstream_cx_connect_fail": 2, "cluster.api.ssl.fail_verify_san": 2}
	if got, _ := Explain(counters, nil); len(got) != 1 || got[0].Counter != "cluster.api.ssl.fail_verify_san" {
		t.Errorf("got %+v", got)
	}
	counters["cluster.api.upstream_cx_connect_fail"] = 3
	if got, _ := Explain(counters, nil); len(got) != 2 {
		t.Errorf("with another failure: got %+v", got)
	}
}

func TestSince(t *testing.T) {
	before, _ := Explain(map[string]int64{"http.x.no_route": 3, "http.y.no_route": 2, "http.z.no_route": 9, "cluster.api.outlier_detection.ejections_active": 1}, nil)
	now, _ := Explain(map[string]int64{"http.x.no_route": 4, "http.y.no_route": 2, "http.z.no_route": 5, "cluster.api.outlier_detection.ejections_active": 1}, nil)
	var got []string
	for _, f := range Since(now, before) {
		got = append(got, f.Text)
	}
	want := []string{
		"5 requests at z: no route matches", // another Envoy's
		"1 endpoint to cluster api: ejected for errors now", "1 request at x: no route matches",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// With more findings than an answer has, those that are left out are counted, and one that comes into the answer later does not tell what was before.
func TestFindingsBeyondTheBound(t *testing.T) {
	counters := map[string]int64{"http.rare.no_route": 5}
	for i := range mostFindings {
		counters[fmt.Sprintf("http.often%03d.no_route", i)] = 9
	}
	before, more := Explain(counters, nil)
	if len(before) != mostFindings || more != 1 {
		t.Fatalf("%d findings, and %d more", len(before), more)
	}
	counters["http.rare.no_route"] = 12
	now, more := Explain(counters, nil)
	if got := Since(now, before); more != 1 || len(got) != 1 || got[0].Count != 3 || got[0].Text != "3 requests at rare: no route matches" {
		t.Errorf("got %+v, and %d more; want 3 requests, since 9 at most may have been before", got, more)
	}
	counters["http.rare.no_route"] = 9
	if now, more = Explain(counters, nil); more != 1 || len(Since(now, before)) != 0 {
		t.Errorf("got %+v, and %d more", Since(now, before), more)
	}
}

// testdata/stats.txt is what an Envoy 1.40 counted after one request of each kind of failure.
func TestRealCounters(t *testing.T) {
	text, err := os.ReadFile("testdata/stats.txt")
	if err != nil {
		t.Fatal(err)
	}
	filter, counters := regexp.MustCompile(Filter()), map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		counters[name], err = strconv.ParseInt(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, found := causeOf(name); found != filter.MatchString(name) {
			t.Errorf("%s: has a cause is %t, the filter says otherwise", name, found)
		}
	}
	got := map[string]string{}
	findings, _ := Explain(counters, nil)
	for _, f := range findings {
		got[f.Kind+" "+f.Where+" "+f.Flag] = f.Text
	}
	for _, want := range []string{
		"cluster uo UO", "cluster uf UF", "cluster uh UH", "cluster slow UT", "cluster ej ", "cluster cut UC", "cluster totls UF", "cluster retry URX",
		"http outbound_0.0.0.0_80 NR", "http outbound_0.0.0.0_80 NC", "http outbound_0.0.0.0_80 DC", "listener tls ", "listener nochain NR",
	} {
		if got[want] == "" {
			t.Errorf("%q is not told; told are %q", want, got)
		}
	}
}

func TestClusters(t *testing.T) {
	got, err := Clusters([]byte(`{"cluster_statuses": [{"name": "api", "host_statuses": [
		{"address": {"socket_address": {"address": "::1", "port_value": 80}}, "stats": [{"value": "2", "name": "cx_connect_fail"}, {"name": "rq_timeout"}],
		 "health_status": {"failed_outlier_check": true, "eds_health_status": "HEALTHY"}},
		{"address": {"pipe": {"path": "/run/x"}}, "health_status": {"eds_health_status": "UNHEALTHY"}}, {}],
		"circuit_breakers": {"thresholds": [{"max_connections": 5, "max_pending_requests": 6, "max_requests": 7}, {"priority": "HIGH", "max_connections": 9}]}}]}`))
	want := Cluster{"api", []Host{{"[::1]:80", 2, 0, true, false}, {"/run/x", 0, 0, false, true}, {}}, 5, 6, 7, 0}
	if err != nil || fmt.Sprint(got["api"]) != fmt.Sprint(want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	for _, text := range []string{"", "[]", `{"cluster_statuses": [{"host_statuses": [{"stats": [{"value": "x"}]}]}]}`} {
		if _, err := Clusters([]byte(text)); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

func TestClusterFilter(t *testing.T) {
	if got := ClusterFilter(map[string]int64{"http.x.no_route": 1}); got != "" {
		t.Errorf("got %q, want none", got)
	}
	counters := map[string]int64{"cluster." + api + ".upstream_rq_timeout": 1, "cluster.b.upstream_rq_timeout": 9}
	got := regexp.MustCompile(ClusterFilter(counters))
	if !got.MatchString(api) || !got.MatchString("b") || got.MatchString("bb") || got.MatchString(strings.ReplaceAll(api, ".", "x")) {
		t.Errorf("got %s", got)
	}
	for i := range 1000 {
		counters[fmt.Sprintf("cluster.c%d.upstream_rq_timeout", i)] = 2
	}
	if filter := ClusterFilter(counters); strings.Count(filter, "|") != mostClusters-1 || !strings.HasPrefix(filter, "^(b|c0|") {
		t.Errorf("of a thousand: %s", filter)
	}
}

// Every cause has a sentence and a remedy, and no two share a counter.
func TestCausesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range causes {
		key := string(c.kind) + " " + c.stat
		if seen[key] || c.what == "" || c.instead == "" || c.tell(subject{}) == "" {
			t.Errorf("%s is there twice, or lacks a part", key)
		}
		seen[key] = true
	}
}

// Findings are bounded and of one line each, for any answer of an Envoy.
func FuzzExplain(f *testing.F) {
	f.Add("cluster.a.upstream_rq_timeout: 3\nhttp.b\x1b[31m.no_route: 1", []byte(`{"cluster_statuses": [{"name": "a", "host_statuses": [{"address": {"pipe": {"path": "x\u001b\u0000"}}, "stats": [{"name": "rq_timeout", "value": "3"}]}]}]}`))
	f.Fuzz(func(t *testing.T, stats string, document []byte) {
		counters := map[string]int64{}
		for line := range strings.Lines(stats) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			counters[name], _ = strconv.ParseInt(value, 10, 64)
		}
		clusters, _ := Clusters(document)
		if filter := ClusterFilter(counters); filter != "" {
			if _, err := regexp.Compile(filter); err != nil && len(filter) < 500 {
				t.Errorf("filter: %v", err)
			}
		}
		findings, _ := Explain(counters, clusters)
		for _, finding := range append(findings, Since(findings, findings)...) {
			if strings.ContainsFunc(finding.Text+finding.Where+finding.Counter, unicode.IsControl) || len(finding.Text) > 5*longestName*4 || finding.Count <= 0 {
				t.Errorf("%+v", finding)
			}
		}
		if text, err := json.Marshal(findings); err != nil || !json.Valid(text) || len(findings) > mostFindings {
			t.Errorf("%d findings, %v", len(findings), err)
		}
	})
}
