package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestRelease(t *testing.T) {
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.String()
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
