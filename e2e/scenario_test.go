package e2e

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// versions starts two backends of one service, and declares them as subsets.
func versions(w *world, host string) (v1, v2 *backend) {
	v1, v2 = w.backend("v1"), w.backend("v2")
	w.service(host, v1, v2)
	w.apply("DestinationRule "+host, "host: "+host+"\nsubsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]")
	return v1, v2
}

// Requests are told apart by what they are, and the one that a route names gets them.
func TestRequestRouting(t *testing.T) {
	w := newWorld(t)
	versions(w, "app.test")
	w.apply("VirtualService app", `
		hosts: [app.test]
		http:
		- match: [{headers: {end-user: {exact: jason}}}, {queryParams: {beta: {}}}, {uri: {regex: "/v2/[0-9]+"}}, {method: {exact: DELETE}}]
		  route: [{destination: {host: app.test, subset: v2}}]
		- match: [{withoutHeaders: {x-token: {exact: secret}}, uri: {prefix: /private}}]
		  directResponse: {status: 403, body: {string: no token}}
		- match: [{uri: {prefix: /missing}}]
		  route: [{destination: {host: app.test, subset: v3}}]
		- route: [{destination: {host: app.test, subset: v1}}]
	`)
	p := w.sidecar("client", "")
	p.until(from("v1"), "http://app.test/")
	for _, test := range []struct {
		method, path string
		header       []string
		want         func(answer) error
	}{
		{"GET", "/", []string{"end-user", "jason"}, from("v2")},
		{"GET", "/", []string{"end-user", "jasons"}, from("v1")},
		{"GET", "/?beta=1", nil, from("v2")},
		{"GET", "/v2/12", nil, from("v2")},
		{"GET", "/v2/12/", nil, from("v1")},
		{"DELETE", "/", nil, from("v2")},
		{"GET", "/private", nil, status(403)},
		{"GET", "/private", []string{"x-token", "secret"}, from("v1")},
		{"GET", "/missing", nil, status(503)},
	} {
		a, err := p.do(test.method, "http://app.test"+test.path, test.header...)
		w.check(err)
		if err := test.want(a); err != nil {
			t.Errorf("%s %s %v: %v", test.method, test.path, test.header, err)
		}
	}
	if n := p.stat(`^cluster\.outbound\|80\|v2\|app\.test\.upstream_rq_total$`); n != 4 {
		t.Errorf("Envoy counts %d requests to v2, want 4", n)
	}
}

// Faults delay and abort the share of requests that they name.
func TestFaults(t *testing.T) {
	w := newWorld(t)
	b := w.backend("v1")
	w.service("app.test", b)
	w.apply("VirtualService app", `
		hosts: [app.test]
		http:
		- match: [{uri: {exact: /abort}}]
		  fault: {abort: {httpStatus: 418, percentage: {value: 100}}}
		  route: [{destination: {host: app.test}}]
		- match: [{uri: {exact: /half}}]
		  fault: {abort: {httpStatus: 500, percentage: {value: 50}}}
		  route: [{destination: {host: app.test}}]
		- match: [{uri: {exact: /delay}}]
		  fault: {delay: {fixedDelay: 300ms, percentage: {value: 100}}}
		  route: [{destination: {host: app.test}}]
		- match: [{uri: {exact: /nothing}}]
		  fault: {abort: {httpStatus: 500}}
		  route: [{destination: {host: app.test}}]
	`)
	p := w.sidecar("client", "")
	p.until(status(418), "http://app.test/abort")
	// Envoy's timers begin with its loop's idea of now, which may be some milliseconds old.
	if a := p.until(status(200), "http://app.test/delay"); a.took < 250*time.Millisecond {
		t.Errorf("the delayed answer came after %v", a.took)
	}
	p.until(status(200), "http://app.test/nothing")
	failed := 0
	const requests = 200
	for range requests {
		a, err := p.get("http://app.test/half")
		w.check(err)
		if a.status == 500 {
			failed++
		}
	}
	if bound := 5 * math.Sqrt(requests*0.25); math.Abs(float64(failed)-requests/2) > bound {
		t.Errorf("%d of %d requests were aborted, want half", failed, requests)
	}
	if n := p.stat(`fault\.aborts_injected$`); n != int64(failed)+1 {
		t.Errorf("Envoy counts %d aborts, want %d", n, failed+1)
	}
	if n := p.stat(`fault\.delays_injected$`); n != 1 {
		t.Errorf("Envoy counts %d delays, want 1", n)
	}
}

// A route gives up after its timeout, and tries again as often as it says.
func TestTimeoutsAndRetries(t *testing.T) {
	w := newWorld(t)
	slow, broken := w.backend("slow"), w.backend("broken")
	slow.delay.Store(int64(3 * time.Second))
	broken.status.Store(503)
	w.service("slow.test", slow)
	w.service("broken.test", broken)
	w.apply(
		"VirtualService slow", "hosts: [slow.test]\nhttp: [{timeout: 200ms, route: [{destination: {host: slow.test}}]}]",
		"VirtualService broken", `
		hosts: [broken.test]
		http:
		- match: [{uri: {exact: /thrice}}]
		  retries: {attempts: 3, retryOn: 5xx}
		  route: [{destination: {host: broken.test}}]
		- match: [{uri: {exact: /code}}]
		  retries: {attempts: 1, retryOn: "503"}
		  route: [{destination: {host: broken.test}}]
		- match: [{uri: {exact: /attempts}}]
		  retries: {attempts: 3}
		  route: [{destination: {host: broken.test}}]
		- route: [{destination: {host: broken.test}}]
	`)
	p := w.sidecar("client", "")
	if a := p.until(status(504), "http://slow.test/"); a.took > 2*time.Second {
		t.Errorf("gave up after %v", a.took)
	}
	if n := p.stat(`^cluster\.outbound\|80\|\|slow\.test\.upstream_rq_timeout$`); n == 0 {
		t.Error("Envoy counts no timeout")
	}
	for path, want := range map[string]int64{"/thrice": 4, "/code": 2, "/attempts": 1, "/": 1} {
		before := broken.requests.Load()
		a, err := p.get("http://broken.test" + path)
		w.check(err)
		if n := broken.requests.Load() - before; a.status != 503 || n != want {
			t.Errorf("%s: status %d after %d requests, want 503 after %d", path, a.status, n, want)
		}
	}
	if n := p.stat(`^cluster\.outbound\|80\|\|broken\.test\.upstream_rq_retry$`); n != 4 {
		t.Errorf("Envoy counts %d retries, want 4", n)
	}
}

// A route sends requests elsewhere, under another path and host, with other headers, and copies to another service.
func TestWhatARouteChanges(t *testing.T) {
	w := newWorld(t)
	a, mirror := w.backend("v1"), w.backend("mirror")
	w.service("app.test", a)
	w.service("mirror.test", mirror)
	w.apply("VirtualService app", `
		hosts: [app.test]
		http:
		- {match: [{uri: {prefix: /strip}}], rewrite: {uri: /, authority: other.test}, route: [{destination: {host: app.test}}]}
		- {match: [{uri: {prefix: /swap}}], rewrite: {uriRegexRewrite: {match: "^/swap/(.*)/(.*)$", rewrite: "/\\2/\\1"}}, route: [{destination: {host: app.test}}]}
		- {match: [{uri: {exact: /old}}], redirect: {uri: /new, authority: new.test, redirectCode: 308}}
		- {match: [{uri: {prefix: /p/}}], redirect: {prefixRewrite: /q/, scheme: https, port: 8443}}
		- match: [{uri: {exact: /headers}}]
		  headers: {request: {set: {x-set: route}, remove: [x-gone]}, response: {add: {x-route: "100%%"}}}
		  route: [{destination: {host: app.test}, headers: {request: {add: {x-added: destination}}, response: {remove: [x-backend]}}}]
		- match: [{uri: {exact: /mirror}}]
		  route: [{destination: {host: app.test}}]
		  mirror: {host: mirror.test}
		- match: [{uri: {exact: /cors}}]
		  route: [{destination: {host: app.test}}]
		  corsPolicy: {allowOrigins: [{exact: "https://good.test"}], allowMethods: [GET, PUT], allowHeaders: [x-custom], maxAge: 60s, allowCredentials: true}
	`)
	p := w.sidecar("client", "")
	got := p.until(from("v1"), "http://app.test/strip/abc")
	if got.echo.Path != "//abc" || got.echo.Host != "other.test" {
		t.Errorf("rewritten to %s on %s, want //abc on other.test, as Istio does", got.echo.Path, got.echo.Host)
	}
	if got = p.until(from("v1"), "http://app.test/swap/a/b"); got.echo.Path != "/b/a" {
		t.Errorf("rewritten to %s, want /b/a", got.echo.Path)
	}
	if got = p.until(status(308), "http://app.test/old"); got.header.Get("Location") != "http://new.test/new" {
		t.Errorf("redirected to %s", got.header.Get("Location"))
	}
	if got = p.until(status(301), "http://app.test/p/x"); got.header.Get("Location") != "https://app.test:8443/q/x" {
		t.Errorf("redirected to %s", got.header.Get("Location"))
	}
	got = p.until(from("v1"), "http://app.test/headers", "x-gone", "1", "x-set", "client")
	if h := got.echo.Header; h.Get("x-set") != "route" || h.Get("x-gone") != "" || h.Get("x-added") != "destination" {
		t.Errorf("the backend got the headers %v", h)
	}
	if h := got.header; h.Get("x-route") != "100%" || h.Get("x-backend") != "" {
		t.Errorf("the client got the headers %v", h)
	}
	before := mirror.requests.Load()
	p.until(from("v1"), "http://app.test/mirror")
	w.check(lab.Eventually(stopLimit, func() error {
		if mirror.requests.Load() != before+1 {
			return fmt.Errorf("the mirror got %d requests, want 1", mirror.requests.Load()-before)
		}
		return nil
	}))
	for origin, want := range map[string]string{"https://good.test": "https://good.test", "https://bad.test": ""} {
		preflight, err := p.do(http.MethodOptions, "http://app.test/cors", "Origin", origin, "Access-Control-Request-Method", "PUT")
		w.check(err)
		if h := preflight.header.Get("Access-Control-Allow-Origin"); h != want {
			t.Errorf("preflight from %s: allowed is %q, want %q", origin, h, want)
		}
	}
}

// Weights split traffic of requests, and of connections.
func TestTrafficShifting(t *testing.T) {
	w := newWorld(t)
	v1, v2 := versions(w, "app.test")
	vip := w.address()
	w.apply("ServiceEntry tcp", fmt.Sprintf(`
		hosts: [tcp.test]
		addresses: [%s]
		location: MESH_INTERNAL
		resolution: STATIC
		ports: [{number: 9000, name: tcp, protocol: TCP}]
		endpoints: [{address: %s, ports: {tcp: %d}, labels: {version: v1}}, {address: %s, ports: {tcp: %d}, labels: {version: v2}}]
	`, vip, v1.ip, v1.port, v2.ip, v2.port),
		"DestinationRule tcp", "host: tcp.test\nsubsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]",
		"VirtualService tcp", "hosts: [tcp.test]\ntcp: [{match: [{port: 9000}], route: [{destination: {host: tcp.test, subset: v1}, weight: 80}, {destination: {host: tcp.test, subset: v2}, weight: 20}]}]",
		"VirtualService app", "hosts: [app.test]\nhttp: [{route: [{destination: {host: app.test, subset: v1}, weight: 80}, {destination: {host: app.test, subset: v2}, weight: 20}]}]",
	)
	p := w.sidecar("client", "")
	p.until(status(200), "http://app.test/")
	direct := func(target string) (answer, error) {
		return exchange(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: stopLimit}, http.MethodGet, target)
	}
	w.check(lab.Eventually(stopLimit, func() error { _, err := direct("http://" + vip + ":9000/"); return err }))
	for name, get := range map[string]func() (answer, error){
		"HTTP": func() (answer, error) { return p.get("http://app.test/") },
		"TCP":  func() (answer, error) { return direct("http://" + vip + ":9000/") },
	} {
		const requests, share = 300, 0.2
		n := 0
		for range requests {
			a, err := get()
			w.check(err)
			if a.echo.Backend == "v2" {
				n++
			}
		}
		if bound := 5 * math.Sqrt(requests*share*(1-share)); math.Abs(float64(n)-requests*share) > bound {
			t.Errorf("%s: v2 got %d of %d, want %.0f ± %.0f", name, n, requests, requests*share, bound)
		}
	}
	if n := p.stat(`^cluster\.outbound\|9000\|v.\|tcp\.test\.upstream_cx_total$`); n < 300 {
		t.Errorf("Envoy counts %d connections to the subsets, want 300", n)
	}
}

// More than a service may get at once is refused at once.
func TestCircuitBreaking(t *testing.T) {
	w := newWorld(t)
	b := w.backend("v1")
	b.delay.Store(int64(500 * time.Millisecond))
	w.service("app.test", b)
	w.apply("DestinationRule app", "host: app.test\ntrafficPolicy: {connectionPool: {tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1}}}")
	p := w.sidecar("client", "")
	p.until(status(200), "http://app.test/")
	statuses := make(chan int)
	for range 10 {
		go func() {
			a, _ := p.get("http://app.test/")
			statuses <- a.status
		}()
	}
	count := map[int]int{}
	for range 10 {
		count[<-statuses]++
	}
	if count[200] == 0 || count[503] == 0 || count[200]+count[503] != 10 {
		t.Errorf("10 requests at once were answered %v, want some 200 and some 503", count)
	}
	if n := p.stat(`^cluster\.outbound\|80\|\|app\.test\.upstream_rq_pending_overflow$`); n != int64(count[503]) {
		t.Errorf("Envoy counts %d overflows, want %d", n, count[503])
	}
}

// Unknown hosts are let through, or answered 502; a ServiceEntry makes one known, by address or by name.
func TestEgress(t *testing.T) {
	w := newWorld(t)
	outside := w.backend("outside")
	unknown := fmt.Sprintf("http://%s:%d/", outside.ip, outside.port)
	w.service("inside.test", w.backend("inside"))
	p := w.sidecar("client", "")
	p.until(from("outside"), unknown)
	if n := p.stat(`^cluster\.PassthroughCluster\.upstream_rq_total$`); n == 0 {
		t.Error("Envoy counts no request to the PassthroughCluster")
	}
	w.apply("Sidecar default", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}")
	p.until(status(502), unknown)
	p.until(status(200), "http://inside.test/")
	w.apply("ServiceEntry outside", fmt.Sprintf(`
		hosts: [outside.test]
		location: MESH_EXTERNAL
		resolution: DNS
		ports: [{number: 80, name: http, protocol: HTTP}]
		endpoints: [{address: %s, ports: {http: %d}}]
	`, outside.ip, outside.port))
	p.until(from("outside"), "http://outside.test/")
	w.apply("ServiceEntry name", fmt.Sprintf(`
		hosts: [localhost]
		location: MESH_EXTERNAL
		resolution: DNS_ROUND_ROBIN
		ports: [{number: 80, name: http, protocol: HTTP, targetPort: %d}]
	`, mustPort(w)))
	p.until(status(503), "http://localhost/") // it is resolved; nobody listens there
	w.remove("Sidecar", "default")
	p.until(from("outside"), unknown)
}

func mustPort(w *world) int {
	port, err := lab.FreePort()
	w.check(err)
	return port
}

// A Sidecar decides what its workloads see.
func TestScopes(t *testing.T) {
	w := newWorld(t)
	w.service("a.test", w.backend("a"))
	w.service("b.test", w.backend("b"))
	w.apply("Sidecar client", "workloadSelector: {labels: {app: client}}\negress: [{hosts: [\"./a.test\"]}]\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}")
	p := w.sidecar("client", "")
	p.until(from("a"), "http://a.test/")
	p.until(status(502), "http://b.test/")
	if n := p.stat(`^cluster\.outbound\|80\|\|b\.test\.`); n != 0 {
		t.Errorf("a proxy is told of b.test, which its Sidecar does not import")
	}
	other := w.sidecar("other", "")
	other.until(from("b"), "http://b.test/")
}

// One key always gets the same endpoint; taking one endpoint away moves its keys and few others: Envoy's ring keeps its
// size, so that those who stay have more places in it.
func TestConsistentHashing(t *testing.T) {
	w := newWorld(t)
	var all []*backend
	for i := range 5 {
		all = append(all, w.backend(fmt.Sprintf("b%d", i)))
	}
	w.service("app.test", all...)
	w.apply("DestinationRule app", "host: app.test\ntrafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x-user}}}")
	p := w.sidecar("client", "")
	p.until(status(200), "http://app.test/", "x-user", "0")
	const keys = 60
	owners := func() []string {
		var out []string
		for key := range keys {
			a, err := p.get("http://app.test/", "x-user", fmt.Sprint(key))
			w.check(err)
			out = append(out, a.echo.Backend)
		}
		return out
	}
	before := owners()
	if again := owners(); strings.Join(before, " ") != strings.Join(again, " ") {
		t.Errorf("keys moved without a reason:\n%v\n%v", before, again)
	}
	w.service("app.test", all[1:]...)
	w.check(lab.Eventually(stopLimit, func() error {
		if n := p.stat(`^cluster\.outbound\|80\|\|app\.test\.membership_total$`); n != 4 {
			return fmt.Errorf("%d endpoints, want 4", n)
		}
		return nil
	}))
	used := map[string]bool{}
	moved, stayed := 0, 0
	for key, owner := range owners() {
		used[owner] = true
		switch {
		case before[key] == "b0":
		case owner == before[key]:
			stayed++
		default:
			moved++
		}
	}
	if moved > (moved+stayed)/3 { // without a ring three of four would
		t.Errorf("%d of %d keys of the other endpoints moved", moved, moved+stayed)
	}
	if len(used) != 4 {
		t.Errorf("%d endpoints are used, want 4", len(used))
	}
}

// Traffic stays in its zone, leaves it when that fails, and is shared out where shares are set.
func TestLocality(t *testing.T) {
	w := newWorld(t)
	near, far := w.backend("near"), w.backend("far")
	endpoints := []string{near.endpoint(", locality: west/1/a"), far.endpoint(", locality: east/1/a")}
	w.serviceOf("app.test", "HTTP", endpoints...)
	w.serviceOf("shares.test", "HTTP", endpoints...)
	w.apply(
		"DestinationRule app", "host: app.test\ntrafficPolicy: {outlierDetection: {consecutive5xxErrors: 1, interval: 100ms, baseEjectionTime: 60s, maxEjectionPercent: 100}}",
		"DestinationRule shares", "host: shares.test\ntrafficPolicy: {loadBalancer: {localityLbSetting: {distribute: [{from: west/*, to: {\"west/*\": 20, \"east/*\": 80}}]}}}",
	)
	p := w.sidecar("client", "west/1/a")
	p.until(from("near"), "http://app.test/")
	for range 20 {
		a, err := p.get("http://app.test/")
		w.check(err)
		if a.echo.Backend != "near" {
			t.Fatalf("answered by %s while the near one is well", a.echo.Backend)
		}
	}
	const requests, share = 300, 0.2
	n := 0
	for range requests {
		a, err := p.get("http://shares.test/")
		w.check(err)
		if a.echo.Backend == "near" {
			n++
		}
	}
	if bound := 5 * math.Sqrt(requests*share*(1-share)); math.Abs(float64(n)-requests*share) > bound {
		t.Errorf("the near one got %d of %d, want %.0f ± %.0f", n, requests, requests*share, bound)
	}
	near.status.Store(500)
	p.until(from("far"), "http://app.test/")
	if n := p.stat(`^cluster\.outbound\|80\|\|app\.test\.outlier_detection\.ejections_active$`); n != 1 {
		t.Errorf("%d endpoints are ejected, want the near one", n)
	}
}
