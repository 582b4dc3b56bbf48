package agent

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// failing is a standalone agent whose Envoy has a route for each failure.
type failing struct {
	*standalone
	routes, tls string // host:port of two more listeners
}

func startFailing(t *testing.T, flags ...string) *failing {
	t.Helper()
	return startFailingWith(t, func(bootstrap string) string { return bootstrap }, flags...)
}

// startFailingWith changes the bootstrap.
func startFailingWith(t *testing.T, change func(bootstrap string) string, flags ...string) *failing {
	t.Helper()
	f := &failing{standalone: newStandalone(t)}
	host, _, _ := net.SplitHostPort(f.address)
	f.routes, f.tls = fmt.Sprintf("%s:%d", host, lab.Port(t)), fmt.Sprintf("%s:%d", host, lab.Port(t))
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(broken.Close)
	authority, err := lab.NewAuthority("why")
	f.must(err)
	identity, err := authority.Issue("server.test", 7)
	f.must(err)
	at := f.program.Listener.Addr().String()
	cluster := func(name, address, more string) string {
		hosts := ""
		if address != "" {
			hosts = fmt.Sprintf(`{"endpoint": {"address": %s}}`, lab.SocketAddress(address))
		}
		return fmt.Sprintf(`{"name": %q, "connect_timeout": "5s", "load_assignment": {"cluster_name": %q, "endpoints": [{"lb_endpoints": [%s]}]}%s}, `, name, name, hosts, more)
	}
	const api = "outbound|8080||api.default.svc.cluster.local"
	clusters := cluster(api, at, `, "circuit_breakers": {"thresholds": [{"max_connections": 1, "max_pending_requests": 1}]}`) +
		cluster("dead", host+":1", "") + cluster("empty", "", "") + cluster("slow", at, "") +
		cluster("tls", at, `, "transport_socket": {"name": "tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"}}`) +
		cluster("broken", broken.Listener.Addr().String(), `, "outlier_detection": {"consecutive_5xx": 1, "base_ejection_time": "600s", "max_ejection_percent": 100}`)
	var routes []string
	for path, cluster := range map[string]string{"held": api, "dead": "dead", "empty": "empty", "slow": "slow", "tls": "tls", "broken": "broken"} {
		limit := "0s"
		if path == "slow" {
			limit = "0.2s"
		}
		routes = append(routes, fmt.Sprintf(`{"match": {"prefix": "/%s"}, "route": {"cluster": %q, "timeout": %q}}`, path, cluster, limit))
	}
	listener := func(name, address, more string) string {
		return fmt.Sprintf(`{"name": %q, "stat_prefix": %q, "address": %s, "filter_chains": [{"filters": [{"name": "http", "typed_config": {
			"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": %q,
			"route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [%s]}]},
			"http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]
			}}]%s}]}, `, name, name, lab.SocketAddress(address), name, strings.Join(routes, ", "), more)
	}
	context := fmt.Sprintf(`, "transport_socket": {"name": "tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
		"common_tls_context": {"tls_certificates": [{"certificate_chain": {"inline_string": %q}, "private_key": {"inline_string": %q}}]}}}`, identity.Chain, identity.Key)
	f.mutate = func(text string) string {
		text = strings.Replace(text, `"clusters": [`, `"clusters": [`+clusters, 1)
		return change(strings.Replace(text, `"listeners": [`, `"listeners": [`+listener("routes", f.routes, "")+listener("secure", f.tls, context), 1))
	}
	f.configure(1)
	f.launch(flags...)
	f.must(f.awaitRevision(1, startLimit))
	f.must(f.awaitAlone(lab.StopLimit))
	return f
}

// get sends a request through the listener with all routes, and returns the status.
func (f *failing) get(path string) int {
	f.t.Helper()
	return f.send(path, "")
}

// send is get with a Content-Type.
func (f *failing) send(path, kind string) int {
	f.t.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://"+f.routes+path, http.NoBody)
	f.must(err)
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	response, err := fresh.Do(request)
	f.must(err)
	response.Body.Close()
	return response.StatusCode
}

// why runs the command as a user would.
func (f *failing) why(args ...string) string {
	f.t.Helper()
	_, port, _ := net.SplitHostPort(f.status)
	out, err := exec.Command(lab.Program("agent"), append([]string{"why", "--statusPort", port}, args...)...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("agent why: %v\n%s", err, out)
	}
	return string(out)
}

// Each of the failures that people ask about is named with its place and a remedy, by an Envoy without any control plane.
func TestWhyNamesEachFailure(t *testing.T) {
	t.Parallel()
	f := startFailing(t)
	if text := f.why(); !strings.HasPrefix(text, "No failure is counted by the Envoy of epoch 0") {
		t.Errorf("before any failure:\n%s", text)
	}
	for path, want := range map[string]int{"/dead": 503, "/empty": 503, "/slow?30s": 504, "/tls": 503, "/broken": 500, "/nowhere": 404} {
		if got := f.get(path); got != want {
			t.Errorf("%s: status %d, want %d", path, got, want)
		}
	}
	if _, err := fresh.Get("http://" + f.tls + "/dead"); err == nil {
		t.Error("plain text was answered where TLS is spoken")
	}
	var sending sync.WaitGroup
	answers := make(chan int, 3)
	for range 3 { // one is under way, one may wait, and another is refused
		sending.Go(func() { answers <- f.get("/held") })
	}
	if first := <-answers; first != http.StatusServiceUnavailable {
		t.Errorf("the first answer of three to /held is %d, want 503", first)
	}
	close(f.program.held)
	sending.Wait()
	host, _, _ := net.SplitHostPort(f.routes)
	wants := []string{
		" to api.default.svc.cluster.local:8080: not sent, since its limits are reached: 1 waiting request, 1 connection, 1024 requests under way\n     -> raise connectionPool (http.http1MaxPendingRequests",
		"UF   1 connection to cluster dead: refused, or not accepted within the connect timeout, by " + host + ":1\n     -> start the server",
		"UF   1 connection to cluster tls: the TLS handshake failed: the server does not speak TLS, or has ended it with an alert\n     -> leave out transport_socket",
		"UH   1 request to cluster empty: it has no endpoint\n",
		"UT   1 request to cluster slow: not answered within the route's timeout by 127.0.0.1:",
		"NR   1 request at routes: no route matches\n",
		"-    1 connection at listener secure: a client's TLS handshake failed: it speaks plain text",
		"-    1 endpoint to cluster broken: ejected for errors now: 127.0.0.1:",
	}
	f.must(lab.Eventually(handoverLimit, func() error { // an ejection, and the counters of a worker, take a moment
		text := f.why() // one or two of the three are refused, since those that wait for a connection count alike
		for _, want := range wants {
			if !strings.Contains(text, want) {
				return fmt.Errorf("lacks %q:\n%s", want, text)
			}
		}
		return nil
	}))
	answered := make(chan string, 1)
	go func() { answered <- f.why("--for", "2s", "-o", "json") }()
	var text string
	for text == "" {
		f.get("/empty")
		select {
		case text = <-answered:
		default:
		}
	}
	var report struct {
		Findings []struct {
			Where string
			Count int
		}
	}
	f.must(json.Unmarshal([]byte(text), &report))
	counts := map[string]int{}
	for _, finding := range report.Findings {
		counts[finding.Where] = finding.Count
	}
	if len(counts) != 2 || counts["empty"] == 0 || counts["broken"] != 1 {
		t.Errorf("of two seconds: %s, want failures of empty, and that broken is ejected", text)
	}
}
