package status

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
)

func TestHandler(t *testing.T) {
	connected := []ads.Client{{
		Node: "sidecar~127.0.0.9~a.b~d", Peer: "127.0.0.1:5", Connected: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Types: []ads.ClientType{{TypeURL: "t", State: ads.StateSynced, Sent: "v", Acked: "v", Nonce: "1", Wildcard: true}},
	}}
	const loopback = "127.0.0.1:4711"
	tests := map[string]struct {
		method, path, remote string
		ready                bool
		clients              []ads.Client
		code                 int
		body                 string // "" for any
	}{
		"ready":               {"GET", "/ready", "10.0.0.1:1", true, nil, 200, "ready\n"},
		"not ready":           {"GET", "/ready", loopback, false, nil, 503, "not ready: the sources have not synced yet\n"},
		"nobody connected":    {"GET", "/debug/adsz", loopback, true, []ads.Client{}, 200, "[]\n"},
		"one connected":       {"GET", "/debug/adsz", loopback, true, connected, 200, adsz},
		"from IPv6 loopback":  {"GET", "/debug/adsz", "[::1]:1", true, connected, 200, adsz},
		"from mapped address": {"GET", "/debug/adsz", "[::ffff:127.0.0.1]:1", true, connected, 200, adsz},
		"from afar":           {"GET", "/debug/adsz", "10.0.0.1:1", true, connected, 403, "debug pages answer on loopback only\n"},
		"from a pipe":         {"GET", "/debug/adsz", "@", true, connected, 403, ""},
		"no such page":        {"GET", "/", loopback, true, nil, 404, ""},
		"it only reads":       {"POST", "/ready", loopback, true, nil, 405, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(test.method, test.path, nil)
			r.RemoteAddr = test.remote
			w := httptest.NewRecorder()
			handler(test.ready, test.clients).ServeHTTP(w, r)
			if w.Code != test.code || test.body != "" && w.Body.String() != test.body {
				t.Errorf("got %d %s, want %d %s", w.Code, w.Body, test.code, test.body)
			}
		})
	}
}

func handler(ready bool, clients []ads.Client) http.Handler {
	return Handler(func() bool { return ready }, func() []ads.Client { return clients })
}

const adsz = `[
  {
    "node": "sidecar~127.0.0.9~a.b~d",
    "peer": "127.0.0.1:5",
    "connected": "2026-01-02T03:04:05Z",
    "types": [
      {
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
