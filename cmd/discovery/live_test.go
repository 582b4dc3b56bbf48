package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const routeTo = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: api}
spec:
  hosts: [api.example]
  http: [{route: [{destination: {host: %s, port: {number: 80}}}]}]
`

const apiEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api}
spec: {hosts: [api.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.7}]}
`

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// With --live a host that only a registry or the store of the running discovery has is no fault, and one that it lacks is; the exit is validate's.
func TestValidateLive(t *testing.T) {
	s := startServe(t, "--registries", "Mock", "--configDir", filepath.Dir(written(t, apiEntry)))
	s.awaitText(t, "/ready", "ready\n")
	typo := strings.Replace(fmt.Sprintf(routeTo, "hello"), "route:", "rout:", 1)
	empty := t.TempDir()
	for name, c := range map[string]struct {
		file  string
		args  []string
		stdin string
		code  int
		said  []string
	}{
		"a registry's host":    {fmt.Sprintf(routeTo, "hello.default.svc.cluster.local"), nil, "", 0, []string{"objects: 1, errors: 0, warnings: 0; beside what discovery serves to 0 proxies: 0 as served, 0 changed, 1 new (VirtualService default/api)\n"}},
		"a host that it lacks": {fmt.Sprintf(routeTo, "hallo.default.svc.cluster.local"), nil, "", 0, []string{"a.yaml:6: warning: VirtualService default/api: spec.http[0].route[0].destination.host: no service has the host hallo.default.svc.cluster.local", "did you mean hello.default.svc.cluster.local"}},
		"the same, strict":     {fmt.Sprintf(routeTo, "hallo"), []string{"--strict"}, "", 1, []string{"warnings: 1"}},
		"what is served":       {apiEntry, nil, "", 0, []string{"1 as served, 0 changed, 0 new\n"}},
		"what is changed":      {strings.Replace(apiEntry, "80", "81", 1), nil, "", 0, []string{"0 as served, 1 changed (ServiceEntry default/api), 0 new\n"}},
		"a typo":               {typo, nil, "", 1, []string{"a.yaml:6: error: VirtualService default/api: spec.http[0].rout: unknown field", "errors: 1"}},
		"standard input":       {"", []string{"-"}, fmt.Sprintf(routeTo, "world"), 0, []string{"warnings: 0", "1 new"}},
		"JSON":                 {apiEntry, []string{"-o", "json"}, "", 0, []string{`"same": 1`, `"proxies": 0`}},
		"an empty directory":   {apiEntry, []string{empty}, "", 0, []string{empty + ": warning: no object", "1 as served"}},
		"a setting of its own": {apiEntry, []string{"--registries", "Kubernetes"}, "", 2, []string{"--registries with --live: a running discovery has its own"}},
		"files of a way":       {apiEntry, []string{"--tlsCertFile", "x"}, "", 2, []string{"--tlsCertFile without an address in --discoveryAddress"}},
	} {
		args := append([]string{"validate", "--live", "--httpAddr", s.web}, c.args...)
		if c.file != "" {
			args = append(args, written(t, c.file))
		}
		var out strings.Builder
		code := run(t.Context(), args, strings.NewReader(c.stdin), &out, &out)
		if code != c.code {
			t.Errorf("%s: exit %d, want %d", name, code, c.code)
		}
		for _, want := range c.said {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: %s\nwant %s", name, &out, want)
			}
		}
	}
	s.stop(t)
	var out strings.Builder
	if code := run(t.Context(), []string{"validate", "--httpAddr", s.web, written(t, apiEntry)}, nil, &out, &out); code != 2 || !strings.Contains(out.String(), "--httpAddr without --live: no discovery is asked") {
		t.Errorf("exit %d, %s", code, &out)
	}
}

// A certificate of the root namespace has files judged from elsewhere, and another does not.
func TestValidateLiveFromAfar(t *testing.T) {
	a := startAfar(t)
	file := written(t, fmt.Sprintf(routeTo, "api.shop.example"))
	for id, want := range map[string]string{
		admin: "warnings: 0; beside what discovery serves to 0 proxies",
		"spiffe://new.example/ns/shop/sa/operator": "refuses the certificate",
	} {
		code, said := a.says(a.flags(a.mount(a.mesh, id, unchanged), "validate", "--live", file)...)
		if (code == 0) != (id == admin) || !strings.Contains(said, want) {
			t.Errorf("%s: exit %d, %s", id, code, said)
		}
	}
}

// A discovery that is away, old, silent or broken gives no verdict, which is said, beside the faults of the files; the exit is 1.
func TestValidateWithoutLive(t *testing.T) {
	file := written(t, strings.Replace(apiEntry, "STATIC", "STATICK", 1))
	typo := "a.yaml:4: error: ServiceEntry default/api: spec.resolution"
	asked := make(chan struct{}, 1)
	for name, c := range map[string]struct {
		answer http.HandlerFunc // nil for none
		said   string
	}{
		"away": {nil, "connection refused"},
		"old":  {http.NotFound, "has no page /debug/validate: is it a discovery of this version?"},
		"not ready": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "there is no mesh yet: see /ready", http.StatusServiceUnavailable)
		}, "there is no mesh yet"},
		"another":    {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "is it a discovery of this version?"},
		"no verdict": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }, "there is no verdict in it"},
		"half an end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"objects"`)
		}, "unexpected EOF"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for piece := make([]byte, 1<<20); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}, "has more than 33554432 bytes"},
		"silent": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			asked <- struct{}{}
			<-r.Context().Done()
		}, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			at := "127.0.0.1:1"
			if c.answer != nil {
				server := httptest.NewServer(c.answer)
				defer server.Close()
				at = server.Listener.Addr().(*net.TCPAddr).String()
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "silent" {
				go func() { <-asked; cancel() }() // as a person does, or the limit of 30 seconds
			}
			var out, faults strings.Builder
			code := run(ctx, []string{"validate", "--live", "--httpAddr", at, file}, nil, &out, &faults)
			if code != 1 || out.Len() > 0 || !strings.Contains(faults.String(), "ask discovery to validate: ") || !strings.Contains(faults.String(), c.said) || !strings.Contains(faults.String(), typo) {
				t.Errorf("exit %d: %s%s\nwant %s", code, &out, &faults, c.said)
			}
		})
	}
}
