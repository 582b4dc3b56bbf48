package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// status and config print what a running discovery says, and the reason if it does not; an error of usage exits 2.
func TestStatusAndConfig(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.String() {
		case "GET /debug/proxies":
			_, _ = w.Write([]byte(`[{"node": "n", "role": "sidecar", "namespace": "shop", "name": "web", "state": "NACKED", "types": {"lds": "NACKED"},
				"refused": [{"type": "lds", "text": "no such filter"}], "notes": [{"code": "old-envoy", "message": "it is old"}]}]`))
		case "GET /debug/config_dump?proxyID=web.shop":
			_, _ = w.Write([]byte(`{"cds": [{"name": "a"}], "rds": [{"name": "http.80"}]}`))
		case "GET /debug/config_dump?proxyID=nobody":
			http.Error(w, `proxy "nobody" is not connected`, http.StatusNotFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	old := httptest.NewServer(http.NotFoundHandler())
	defer old.Close()
	at := func(address string, args ...string) []string { return append(args, "--httpAddr", address) }
	here := server.Listener.Addr().String()
	another := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) })) // some other program
	defer another.Close()
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`null`)) }))
	defer empty.Close()
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a\x1b[2J\x9b1m\u009b\nb", http.StatusNotFound)
	}))
	defer hostile.Close()
	other, none := another.Listener.Addr().String(), empty.Listener.Addr().String()
	for _, test := range []struct {
		args []string
		code int
		said string
	}{
		{at(other, "config", "web.shop"), 1, "it has no types; is it a discovery of this version?"},
		{at(other, "config", "web.shop", "routes", "-o", "json"), 1, "it has no types; is it a discovery of this version?"},
		{at(none, "config", "web.shop"), 1, "it has no types; is it a discovery of this version?"},
		{at(none, "status", "-o", "json"), 1, "read /debug/proxies: it has no list; is it a discovery of this version?"},
		{at(other, "explain", "--from", "a", "--to", "b"), 1, "read /debug/explain: there is no road in it; is it a discovery of this version?"},
		{at(hostile.Listener.Addr().String(), "config", "web.shop"), 1, "web.shop: a [2J\ufffd1m \nb\n"},
		{at(here, "status"), 0, "shop/web: refuses LDS at 0001-01-01T00:00:00Z: no such filter\nshop/web: old-envoy: it is old\n"},
		{at(here, "status", "web"), 0, "shop/web  sidecar  none"},
		{at(here, "status", "-o", "json"), 0, `"code": "old-envoy"`},
		{at(here, "status", "api"), 1, `no proxy "api" is connected to this discovery`},
		{at(here, "status", "a", "b"), 2, "2 arguments, want PROXY or none"},
		{at("127.0.0.1:1", "status"), 1, "connection refused"},
		{at(old.Listener.Addr().String(), "status"), 1, "has no page /debug/proxies: is it a discovery of this version?"},
		{at(here, "config", "web.shop"), 0, "cds a\nrds http.80\n"},
		{at(here, "config", "web.shop", "routes"), 0, "rds http.80\n"},
		{at(here, "config", "web.shop", "clusters", "-o", "json"), 0, `"name": "a"`},
		{at(here, "config", "nobody"), 1, `proxy "nobody" is not connected`},
		{at(here, "config", "web.shop", "route"), 2, `type "route", want one of clusters`},
		{at(here, "config"), 2, "0 arguments, want NODE"},
	} {
		var out, faults strings.Builder
		if code := run(t.Context(), test.args, nil, &out, &faults); code != test.code || !strings.Contains(out.String()+faults.String(), test.said) {
			t.Errorf("%q: exit %d, %s%s, want %d and %q", test.args, code, &out, &faults, test.code, test.said)
		}
	}
}

// A discovery without proxies has a status, a table without rows.
func TestStatusOfARunningDiscovery(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "--configDir", dir)
	s.awaitText(t, "/debug/proxies", "[]")
	var out strings.Builder
	if code := run(t.Context(), []string{"status", "--httpAddr", s.web}, nil, &out, &out); code != 0 || !strings.HasPrefix(out.String(), "PROXY") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("it ends with %d: %s", code, out.String())
	}
	s.stop(t)
}

// What changes at discovery while an agent is asked is no difference; what changes without end is compared, and that is said. A replica's Envoy is another.
func TestDiffWhileTheConfigurationChanges(t *testing.T) {
	for _, row := range []struct {
		name, node string
		until      int // asked so often, discovery sends something else each time
		code       int
		want       string
	}{
		{"it stays", "web.shop", 1, 0, "Envoy has what discovery has sent\n"},
		{"it changes once", "web.shop", 2, 0, "Envoy has what discovery has sent\n"},
		{"it changes without end", "web.shop", 1000, 1, "what discovery sends has changed meanwhile, a difference may be of that time\n"},
		{"a replica", "web-2.shop", 1, 1, `node web-2.shop differs: the Envoy behind that agent is "sidecar~10.9.0.1~web.shop~"` + "\n"},
	} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/debug/config_dump":
				asked++
				_, _ = fmt.Fprintf(w, `{"rds": [{"name": "http.%d"}]}`, min(asked, row.until))
			case "/config_dump":
				_, _ = fmt.Fprintf(w, `{"configs": [{"bootstrap": {"node": {"id": "sidecar~10.9.0.1~web.shop~"}}}, {"dynamic_route_configs": [{"route_config": {"name": "http.%d"}}]}]}`, min(asked+1, row.until))
			case "/clusters":
				_, _ = w.Write([]byte(`{}`))
			}
		}))
		here := server.Listener.Addr().String()
		var out strings.Builder
		if code := run(t.Context(), []string{"config", row.node, "--diff", "--httpAddr", here, "--agentAddr", here}, nil, &out, &out); code != row.code || !strings.Contains(out.String(), row.want) {
			t.Errorf("%s: exit %d, %s, want %d and %s", row.name, code, out.String(), row.code, row.want)
		}
		server.Close()
	}
}
