package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRelease(t *testing.T) {
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
		if r.URL.Query().Get("source") == "other" {
			_, _ = io.WriteString(w, "{}")
			return
		}
		if r.URL.Query().Get("source") != "xds://a:1" {
			http.Error(w, "it has no groups that are held", http.StatusConflict)
			return
		}
		_, _ = io.WriteString(w, "3 groups are no longer held\n")
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	for _, test := range []struct {
		args []string
		code int
		said string
	}{
		{[]string{"xds://a:1", "--httpAddr", address}, 0, "3 groups are no longer held"},
		{[]string{"other", "--httpAddr", address}, 1, `answers "{}", which is not what discovery answers`},
		{[]string{"b", "--httpAddr", address}, 1, "release b: it has no groups that are held"},
		{[]string{"b", "--httpAddr", "127.0.0.1:1"}, 1, "connection refused"},
		{nil, 2, "0 arguments, want SOURCE"},
	} {
		var out, faults strings.Builder
		if code := run(t.Context(), append([]string{"release"}, test.args...), nil, &out, &faults); code != test.code || !strings.Contains(out.String()+faults.String(), test.said) {
			t.Errorf("%q: exit %d, %s%s, want %d and %q", test.args, code, &out, &faults, test.code, test.said)
		}
	}
	if want := "POST /debug/release?source=b"; asked != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// Files that disappear at once are named as what any source holds, and an operator releases them in the same way: then they
// are gone, and not held a second time.
func TestReleaseOfFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 4 {
		object := fmt.Sprintf("{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: s%d}, spec: {hosts: [s%d.test], resolution: NONE, ports: [{number: 80, name: http, protocol: HTTP}]}}", i, i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".yaml")), []byte(object), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := startServe(t, "--configDir", dir, "--wipeDelay", "1h")
	s.awaitText(t, "/v1/registration", "s3.test")
	for i := range 4 {
		if err := os.Remove(filepath.Join(dir, fmt.Sprint(i, ".yaml"))); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitText(t, "/ready?verbose", "source config: 4 of 4 services, all 4 objects of kind ServiceEntry are gone at once")
	if page := s.get(t, s.web, "/v1/registration"); !strings.Contains(page, "s0.test") || !strings.Contains(page, "s3.test") {
		t.Errorf("they are not held: %s", page)
	}
	var out strings.Builder
	if code := run(t.Context(), []string{"release", "config", "--httpAddr", s.web}, nil, &out, &out); code != 0 || !strings.Contains(out.String(), "4 groups are no longer held") {
		t.Errorf("it ends with %d: %s", code, out.String())
	}
	s.awaitText(t, "/v1/registration", "[]")
	s.stop(t)
}
