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
// are gone, and not held a second time. So it is with the last one.
func TestReleaseOfFiles(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		object := fmt.Sprintf("{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: s%d}, spec: {hosts: [s%d.test], resolution: NONE, ports: [{number: 80, name: http, protocol: HTTP}]}}", i, i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".yaml")), []byte(object), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := startServe(t, "--configDir", dir, "--wipeDelay", "1h")
	s.awaitText(t, "/v1/registration", "s4.test")
	for _, step := range []struct {
		gone                   []int
		said, ends, page, left string
		held                   []string
	}{
		{[]int{0, 1, 2, 3}, "source config: 4 of 5 services are gone at once", "4 groups are no longer held", "/debug/sources", `"objects": 1`, []string{"s0.test", "s3.test", "s4.test"}},
		{[]int{4}, "source config: all 1 groups are gone at once", "1 groups are no longer held", "/v1/registration", "[]", []string{"s4.test"}},
	} {
		for _, i := range step.gone {
			if err := os.Remove(filepath.Join(dir, fmt.Sprint(i, ".yaml"))); err != nil {
				t.Fatal(err)
			}
		}
		s.awaitText(t, "/ready?verbose", step.said)
		page := s.get(t, s.web, "/v1/registration")
		for _, host := range step.held {
			if !strings.Contains(page, host) {
				t.Errorf("%s is not held: %s", host, page)
			}
		}
		var out strings.Builder
		if code := run(t.Context(), []string{"release", "config", "--httpAddr", s.web}, nil, &out, &out); code != 0 || !strings.Contains(out.String(), step.ends) {
			t.Errorf("it ends with %d: %s", code, out.String())
		}
		s.awaitText(t, step.page, step.left)
	}
	s.stop(t)
}
