package status

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestHandler(t *testing.T) {
	connected := []ads.Client{{
		Node: "sidecar~127.0.0.9~a.b~d", Peer: "127.0.0.1:5", Variant: "delta", Connected: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Types: []protocol.Type{{Name: "cds", TypeURL: "t", State: protocol.StateSynced, Sent: "v", Acked: "v", Nonce: "1", Wildcard: true}},
	}}
	const loopback = "127.0.0.1:4711"
	tests := map[string]struct {
		method, path, remote string
		ready                bool
		clients              []ads.Client
		code                 int
		body                 string // "" for any
	}{
		"ready":                   {"GET", "/ready", "10.0.0.1:1", true, nil, 200, "ready\n"},
		"not ready":               {"GET", "/ready", loopback, false, nil, 503, "not ready: the sources have not synced yet\n"},
		"ready, but":              {"GET", "/ready?verbose", loopback, true, nil, 200, "ready\na.yaml is refused\n"},
		"not ready, and":          {"GET", "/ready?verbose", loopback, false, nil, 503, "not ready: the sources have not synced yet\na.yaml is refused\n"},
		"ready, from afar":        {"GET", "/ready?verbose", "10.0.0.1:1", true, nil, 200, "ready\n"},
		"the store":               {"GET", "/debug/config", loopback, true, nil, 200, "{\n  \"objects\": 1\n}\n"},
		"nobody connected":        {"GET", "/debug/adsz", loopback, true, []ads.Client{}, 200, "[]\n"},
		"one connected":           {"GET", "/debug/adsz", loopback, true, connected, 200, adsz},
		"from IPv6 loopback":      {"GET", "/debug/adsz", "[::1]:1", true, connected, 200, adsz},
		"from mapped address":     {"GET", "/debug/adsz", "[::ffff:127.0.0.1]:1", true, connected, 200, adsz},
		"from afar":               {"GET", "/debug/adsz", "10.0.0.1:1", true, connected, 403, "/debug/adsz is for programs on this host only: asked from 10.0.0.1:1, want 127.0.0.1 or ::1\n"},
		"through Envoy":           {"GET", "/debug/adsz", "127.0.0.6:1", true, connected, 403, ""},
		"registration":            {"GET", "/v1/registration", "127.0.0.6:1", true, nil, 403, ""},
		"pprof":                   {"GET", "/debug/pprof/", "127.0.0.6:1", true, nil, 403, ""},
		"from a pipe":             {"GET", "/debug/adsz", "@", true, connected, 403, ""},
		"no such page":            {"GET", "/nothing", loopback, true, nil, 404, ""},
		"a source is released":    {"POST", "/debug/release?source=a", loopback, true, nil, 200, "3 groups are no longer held\n"},
		"one without a hold":      {"POST", "/debug/release?source=b", loopback, true, nil, 409, "b has none\n"},
		"released from afar":      {"POST", "/debug/release?source=a", "10.0.0.1:1", true, nil, 403, ""},
		"a look releases nothing": {"GET", "/debug/release?source=a", loopback, true, nil, 405, ""},
		"it only reads":           {"POST", "/ready", loopback, true, nil, 405, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, test.path, nil)
			r.RemoteAddr, r.Host = test.remote, loopback
			w := httptest.NewRecorder()
			handler(test.ready, test.clients).ServeHTTP(w, r)
			if w.Code != test.code || test.body != "" && w.Body.String() != test.body {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, test.code, test.body)
			}
		})
	}
}

func handler(ready bool, clients []ads.Client) http.Handler {
	return pages(ready, clients).Handler()
}

func pages(ready bool, clients []ads.Client) Pages {
	mesh := model.New(slices.Values([]model.Group{{
		Services: []*model.Service{{
			Right: model.RightFull, Host: "a.com", Namespace: "n", Resolution: model.ResolutionStatic,
			Ports:     []model.Port{{Name: "http", Number: 80, Protocol: model.HTTP}},
			Endpoints: []model.Endpoint{{Address: "10.0.0.1", Ports: map[string]uint32{"http": 8080}}},
		}},
		Objects: []*model.Object{{
			Meta: model.Meta{Kind: "DestinationRule", Namespace: "n", Name: "a", Origin: model.Origin{File: "a.yaml", Line: 3}},
			Spec: &networking.DestinationRule{Host: "a.com", ExportTo: []string{"away"}},
		}},
	}}))
	return Pages{
		Awaited: func() string { return map[bool]string{false: "the sources have not synced yet"}[ready] }, Mesh: func() *model.Mesh { return mesh }, Proxies: proxies(clients),
		Config: func() any { return map[string]int{"objects": 1} }, Faults: func() []string { return []string{"a.yaml is refused"} },
		Notes: func() []model.Note { return mesh.Notes() }, Sources: func() any { return []string{"a is synced"} },
		Release: func(source string) (int, error) {
			if source != "a" {
				return 0, errors.New(source + " has none")
			}
			return 3, nil
		},
	}
}

type proxies []ads.Client

func (p proxies) Clients() []ads.Client { return p }
func (p proxies) Pushes() []ads.Push {
	return []ads.Push{{Generation: 3, Cause: []string{"config/a"}, Changes: 1, Responses: map[string]int{"eds": 2}}}
}

func (p proxies) Dump(proxy string) (map[string][]json.RawMessage, error) {
	if proxy != "a.b" {
		return nil, errors.New("proxy is not connected")
	}
	return map[string][]json.RawMessage{"cds": {json.RawMessage(`{"name":"c"}`)}}, nil
}

func TestNotesShowTheOrigin(t *testing.T) {
	got := noted([]model.Note{{
		Code: model.Conflict, Path: "ports", Message: "lost",
		Meta:  model.Meta{Kind: "Service", Namespace: "n", Name: "a", Origin: model.Origin{Record: &model.Record{Cluster: "east", Version: "7"}}},
		Other: model.Meta{Kind: "ServiceEntry", Namespace: "n", Name: "b", Origin: model.Origin{File: "b.yaml", Line: 4}},
	}})
	want := note{
		Code: model.Conflict, Object: "Service n/a", Record: "cluster east, version 7", Path: "ports", Message: "lost",
		Winner: "ServiceEntry n/b, b.yaml:4",
	}
	if len(got) != 1 || got[0] != want {
		t.Errorf("shown %+v, want %+v", got, want)
	}
}

func TestDebugPages(t *testing.T) {
	connected := []ads.Client{{Node: "x", Generation: 3, Types: []protocol.Type{{Name: "cds", State: protocol.StateSynced}}}}
	for path, want := range map[string]string{
		"/v1/registration": `[{"host":"a.com","endpoints":[{"address":"10.0.0.1","ports":{"http":8080}}]}]`,
		"/debug/endpointz": `[{"host":"a.com","endpoints":[{"address":"10.0.0.1","ports":{"http":8080}}]}]`,
		"/debug/registryz": `[{"host":"a.com","namespace":"n","resolution":"STATIC","ports":{"http":80},"endpoints":1}]`,
		"/debug/configz":   `[{"kind":"DestinationRule","namespace":"n","name":"a","origin":"a.yaml:3","spec":{"host":"a.com","exportTo":["away"]}}]`,
		"/debug/notes": `[{"code":"unknown-namespace","object":"DestinationRule n/a","file":"a.yaml","line":3,"path":"spec.exportTo[0]",` +
			`"message":"nothing is known of namespace away; want one of istio-system, n"}]`,
		"/debug/sources":                   `["a is synced"]`,
		"/debug/syncz":                     `[{"proxy":"x","generation":3,"types":{"cds":"SYNCED"}}]`,
		"/debug/config_dump?proxyID=a.b":   `{"cds":[{"name":"c"}]}`,
		"/debug/config_dump?proxyID=other": "proxy is not connected",
		"/debug/config_dump":               "proxyID is missing, want ?proxyID=NODE",
		"/debug/push_status": `[{"generation":3,"cause":["config/a"],"changes":1,"since":"0001-01-01T00:00:00Z",` +
			`"pushed":"0001-01-01T00:00:00Z","views_rebuilt":0,"resources_encoded":0,"responses":{"eds":2},"proxies":0,"waiting":0}]`,
	} {
		t.Run(path, func(t *testing.T) {
			body := func(remote string, exposed bool) (int, string) {
				r := httptest.NewRequest("GET", path, nil)
				r.RemoteAddr, r.Host = remote, "localhost:8080"
				w := httptest.NewRecorder()
				p := pages(true, connected)
				p.Exposed = exposed
				p.Handler().ServeHTTP(w, r)
				return w.Code, w.Body.String()
			}
			for remote, exposed := range map[string]bool{"127.0.0.1:1": false, "10.0.0.1:1": true} {
				_, got := body(remote, exposed)
				var compact bytes.Buffer
				if json.Compact(&compact, []byte(got)) != nil {
					compact.WriteString(strings.TrimSpace(got))
				}
				if compact.String() != want {
					t.Errorf("got %s, want %s", compact.String(), want)
				}
			}
			if code, _ := body("10.0.0.1:1", false); code != http.StatusForbidden {
				t.Errorf("from afar: %d, want 403", code)
			}
		})
	}
}

// A page of another site shows nothing of the mesh in a browser on this host, whether the site's name was made to
// resolve to this host (a foreign Host), or the page sends a request directly (a foreign Origin). Exposed pages have
// any name, but no foreign Origin.
func TestPagesRefuseOtherSites(t *testing.T) {
	for _, path := range []string{
		"/v1/registration", "/debug/registryz", "/debug/endpointz", "/debug/configz", "/debug/adsz", "/debug/syncz", "/debug/push_status",
		"/debug/config_dump?proxyID=a.b", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/trace",
	} {
		for _, test := range []struct {
			host, origin string
			exposed      bool
			refused      bool
		}{
			{"evil.test:8080", "", false, true},
			{"localhost:8080", "http://evil.test", false, true},
			{"discovery.test:8080", "http://evil.test", true, true},
			{"discovery.test:8080", "", true, false},
		} {
			if !test.refused && strings.HasPrefix(path, "/debug/pprof/") {
				continue // a profile takes a while
			}
			r := httptest.NewRequest("GET", path, nil)
			r.RemoteAddr, r.Host = "127.0.0.1:1", test.host
			r.Header.Set("Origin", test.origin)
			if test.origin == "" {
				r.Header.Del("Origin")
			}
			w := httptest.NewRecorder()
			p := pages(true, nil)
			p.Exposed = test.exposed
			p.Handler().ServeHTTP(w, r)
			if refused := w.Code == http.StatusForbidden; refused != test.refused {
				t.Errorf("%s with %+v: %d", path, test, w.Code)
			}
		}
	}
}

func TestMonitoring(t *testing.T) {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "pilot_x", Help: "x"})
	handler := Monitoring(map[string]string{"version": "v1"}, counter)
	for path, want := range map[string]string{"/metrics": "pilot_x 0", "/version": `"version": "v1"`} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d, want it to hold %q:\n%.300s", path, w.Code, want, w.Body)
		}
	}
}

const adsz = `[
  {
    "node": "sidecar~127.0.0.9~a.b~d",
    "peer": "127.0.0.1:5",
    "variant": "delta",
    "connected": "2026-01-02T03:04:05Z",
    "generation": 0,
    "types": [
      {
        "name": "cds",
        "type_url": "t",
        "state": "SYNCED",
        "version_sent": "v",
        "version_acked": "v",
        "nonce": "1",
        "wildcard": true,
        "subscribed": 0
      }
    ]
  }
]
`

// The index lists every page, and only pages that there are.
func TestIndex(t *testing.T) {
	p := Pages{}
	for _, path := range []string{"/", "/debug", "/debug/"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://127.0.0.1"+path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		p.Handler().ServeHTTP(w, r)
		if w.Code != 200 || w.Body.String() != indexText {
			t.Errorf("%s: %d, %s", path, w.Code, w.Body)
		}
	}
	source := regexp.MustCompile(`/(?:debug|v1)/[a-z_/0-9]+`)
	for path := range p.values() {
		if !strings.Contains(indexText, path) {
			t.Errorf("%s is not in the index", path)
		}
	}
	for _, path := range source.FindAllString(indexText, -1) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://192.0.2.1"+path, nil) // of another host: each page refuses it, and no other
		r.RemoteAddr = "192.0.2.7:1"
		p.Handler().ServeHTTP(w, r)
		if w.Code != 403 {
			t.Errorf("%s is in the index, and answers %d", path, w.Code)
		}
	}
}

// A browser on this host gets the page at /, and nobody else does, though the other pages are exposed: not another host, not a page that was made to
// resolve to this one, not a page of another site.
func TestFront(t *testing.T) {
	p := Pages{Exposed: true, Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page of "+r.URL.Path) })}
	for _, row := range []struct{ host, remote, path, accept, site, want string }{
		{"127.0.0.1:8080", "127.0.0.1:1", "/", "text/html,*/*", "none", "page of /"},
		{"localhost:8080", "[::1]:1", "/page/data", "*/*", "same-origin", "page of /page/data"},
		{"127.0.0.1:8080", "127.0.0.1:1", "/", "*/*", "", indexText},
		{"192.0.2.1:8080", "192.0.2.7:1", "/", "text/html", "", "the page is for browsers on this host only: asked from 192.0.2.7:1"},
		{"192.0.2.1:8080", "192.0.2.7:1", "/page/data", "", "", "the page is for browsers on this host only: asked from"},
		{"rebound.test:8080", "127.0.0.1:1", "/", "text/html", "", "the page is for browsers on this host only: asked as host"},
		{"127.0.0.1:8080", "127.0.0.1:1", "/page/events", "text/event-stream", "cross-site", "the page is for browsers on this host only: asked by a page"},
	} {
		r := httptest.NewRequest("GET", "http://"+row.host+row.path, nil)
		r.RemoteAddr = row.remote
		r.Header.Set("Accept", row.accept)
		r.Header.Set("Sec-Fetch-Site", row.site)
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, r)
		if !strings.HasPrefix(w.Body.String(), row.want) || (w.Code == 403) != strings.Contains(row.want, "only:") {
			t.Errorf("%+v: %d %s", row, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	Pages{}.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/page/data", nil))
	if w.Code != 404 {
		t.Errorf("without a page: %d", w.Code)
	}
}

// A browser asks each server for an icon next to a page that is not HTML: an error would be a fault in its console.
func TestNoIconIsNoFault(t *testing.T) {
	for name, h := range map[string]http.Handler{
		"this host":  Pages{}.Handler(),
		"afar":       Pages{}.Remote(func(*http.Request) error { return nil }, slog.New(slog.DiscardHandler)),
		"monitoring": Monitoring(nil),
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/favicon.ico", nil)) // of another host: to some the pages are exposed
		if w.Code != http.StatusNoContent {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error { return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) ask(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	return p.begin(t, "GET /debug/config HTTP/1.1\r\nHost: x\r\n\r\n")
}

func (p pipes) begin(t *testing.T, request string) (net.Conn, *bufio.Reader) {
	t.Helper()
	here, there := net.Pipe()
	p <- there
	if _, err := io.WriteString(here, request); err != nil {
		t.Fatal(err)
	}
	return here, bufio.NewReader(here)
}

func (p pipes) end(t *testing.T, server *http.Server, ended <-chan error) {
	t.Helper()
	close(p)
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

// Callers who do not read hold an answer each for a while, some at a time, and no longer.
func TestSlowReadersAfar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Pages{Config: func() any { return strings.Repeat("x", 1<<20) }}
		l := make(pipes)
		server := &http.Server{Handler: p.Remote(func(*http.Request) error { return nil }, slog.New(slog.DiscardHandler))}
		ended := make(chan error)
		go func() { ended <- server.Serve(l) }()
		status := func() string {
			conn, in := l.ask(t)
			defer conn.Close()
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			return line
		}
		for range answersAfar {
			conn, _ := l.ask(t)
			defer conn.Close()
		}
		synctest.Wait()
		if got := status(); !strings.Contains(got, "503") {
			t.Errorf("one more: %s", got)
		}
		<-time.After(answerTime + time.Second)
		synctest.Wait()
		if got := status(); !strings.Contains(got, "200") {
			t.Errorf("after their time: %s", got)
		}
		l.end(t, server, ended)
	})
}

// Refusals are in the log with their cause, at most one in a second.
func TestRefusalsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := Pages{}.Remote(func(*http.Request) error { return errors.New("of namespace shop") }, slog.New(slog.NewTextHandler(&log, nil)))
		ask := func() {
			r, w := request("/debug/" + strings.Repeat("x", 200))
			h.ServeHTTP(w, r)
			if w.Code != 403 || w.Body.String() != `{"error":"refused"}`+"\n" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		for range 5 {
			ask()
		}
		<-time.After(logRefusals)
		ask()
		if got := log.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "namespace shop") || !strings.Contains(got, "more=4") || len(got) > 700 {
			t.Errorf("the log:\n%s", got)
		}
	})
}

func request(path string) (*http.Request, *httptest.ResponseRecorder) {
	return httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
}
