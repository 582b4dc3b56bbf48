package traffic

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// versions starts two backends of one service, and declares them as subsets.
func versions(w *world, host string) (v1, v2 *lab.Backend) {
	v1, v2 = w.Backend("v1"), w.Backend("v2")
	w.Service(host, v1, v2)
	w.Apply("DestinationRule "+host, "host: "+host+"\nsubsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]")
	return v1, v2
}

// Requests are told apart by what they are, and the one that a route names gets them.
func TestRequestRouting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	versions(w, "app.test")
	w.Apply("VirtualService app", `
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
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.Status(403), "http://app.test/private") // by the VirtualService, which discovery reads last
	for _, test := range []struct {
		method, path string
		header       []string
		want         func(lab.Answer) error
	}{
		{"GET", "/", []string{"end-user", "jason"}, lab.From("v2")},
		{"GET", "/", []string{"end-user", "jasons"}, lab.From("v1")},
		{"GET", "/?beta=1", nil, lab.From("v2")},
		{"GET", "/v2/12", nil, lab.From("v2")},
		{"GET", "/v2/12/", nil, lab.From("v1")},
		{"DELETE", "/", nil, lab.From("v2")},
		{"GET", "/private", nil, lab.Status(403)},
		{"GET", "/private", []string{"x-token", "secret"}, lab.From("v1")},
		{"GET", "/missing", nil, lab.Status(503)},
	} {
		a, err := p.Do(test.method, "http://app.test"+test.path, test.header...)
		w.Check(err)
		if err := test.want(a); err != nil {
			t.Errorf("%s %s %v: %v", test.method, test.path, test.header, err)
		}
	}
	if n := p.Stat(`^cluster\.outbound\|80\|v2\|app\.test\.upstream_rq_total$`); n != 4 {
		t.Errorf("Envoy counts %d requests to v2, want 4", n)
	}
	w.replay(p)
}

// A route sends requests elsewhere, under another path and host, with other headers, and copies to another service.
func TestWhatARouteChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, mirror := w.Backend("v1"), w.Backend("mirror")
	w.Service("app.test", a)
	w.Service("mirror.test", mirror)
	w.Apply("VirtualService app", `
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
	p := w.SidecarEnvoy("client", "")
	got := p.Until(lab.From("v1"), "http://app.test/strip/abc")
	if got.Echo.Path != "//abc" || got.Echo.Host != "other.test" {
		t.Errorf("rewritten to %s on %s, want //abc on other.test, as Istio does", got.Echo.Path, got.Echo.Host)
	}
	if got = p.Until(lab.From("v1"), "http://app.test/swap/a/b"); got.Echo.Path != "/b/a" {
		t.Errorf("rewritten to %s, want /b/a", got.Echo.Path)
	}
	if got = p.Until(lab.Status(308), "http://app.test/old"); got.Header.Get("Location") != "http://new.test/new" {
		t.Errorf("redirected to %s", got.Header.Get("Location"))
	}
	if got = p.Until(lab.Status(301), "http://app.test/p/x"); got.Header.Get("Location") != "https://app.test:8443/q/x" {
		t.Errorf("redirected to %s", got.Header.Get("Location"))
	}
	got = p.Until(lab.From("v1"), "http://app.test/headers", "x-gone", "1", "x-set", "client")
	if h := got.Echo.Header; h.Get("x-set") != "route" || h.Get("x-gone") != "" || h.Get("x-added") != "destination" {
		t.Errorf("the backend got the headers %v", h)
	}
	if h := got.Header; h.Get("x-route") != "100%" || h.Get("x-backend") != "" {
		t.Errorf("the client got the headers %v", h)
	}
	before := mirror.Requests.Load()
	p.Until(lab.From("v1"), "http://app.test/mirror")
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		if mirror.Requests.Load() != before+1 {
			return fmt.Errorf("the mirror got %d requests, want 1", mirror.Requests.Load()-before)
		}
		return nil
	}))
	for origin, want := range map[string]string{"https://good.test": "https://good.test", "https://bad.test": ""} {
		preflight, err := p.Do(http.MethodOptions, "http://app.test/cors", "Origin", origin, "Access-Control-Request-Method", "PUT")
		w.Check(err)
		if h := preflight.Header.Get("Access-Control-Allow-Origin"); h != want {
			t.Errorf("preflight from %s: allowed is %q, want %q", origin, h, want)
		}
	}
	for counter, want := range map[string]int64{
		`^http\.outbound_.*\.downstream_rq_3xx$`:                     2,
		`^cluster\.outbound\|80\|\|mirror\.test\.upstream_rq_total$`: 1,
		`^http\.outbound_.*\.cors\.origin_valid$`:                    1,
		`^http\.outbound_.*\.cors\.origin_invalid$`:                  1,
	} {
		if n := p.Stat(counter); n != want {
			t.Errorf("Envoy counts %s = %d, want %d", counter, n, want)
		}
	}
	w.replay(p)
}
