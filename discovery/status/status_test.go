package status

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
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
