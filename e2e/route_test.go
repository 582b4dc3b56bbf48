package e2e

import (
	"fmt"
	"net/http"
	"testing"

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
	t.Parallel()
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

// A route sends requests elsewhere, under another path and host, with other headers, and copies to another service.
func TestWhatARouteChanges(t *testing.T) {
	t.Parallel()
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
	for counter, want := range map[string]int64{
		`^http\.outbound_.*\.downstream_rq_3xx$`:                     2,
		`^cluster\.outbound\|80\|\|mirror\.test\.upstream_rq_total$`: 1,
		`^http\.outbound_.*\.cors\.origin_valid$`:                    1,
		`^http\.outbound_.*\.cors\.origin_invalid$`:                  1,
	} {
		if n := p.stat(counter); n != want {
			t.Errorf("Envoy counts %s = %d, want %d", counter, n, want)
		}
	}
}
