package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve logs the warnings of validate too, and no longer once they are fixed.
func TestServeTellsNotes(t *testing.T) {
	dir := t.TempDir()
	write := func(exportTo string) {
		object := "{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: a},\nspec: {host: a.test, exportTo: [" + exportTo + "]}}"
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(object), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("away")
	s := startServe(t, "--configDir", dir)
	s.awaitPage(t, "/debug/notes", func(body string) bool {
		return strings.Contains(body, `"code": "unknown-namespace"`) && strings.Contains(body, `"line": 2`)
	})
	write(".")
	s.awaitPage(t, "/debug/notes", func(body string) bool { return body == "[]\n" })
	s.stop(t)
}

// awaitPage requests a page until it is as wanted.
func (s serving) awaitPage(t *testing.T, path string, want func(body string) bool) {
	t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		response, err := http.Get("http://" + s.web + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if want(string(body)) {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s is %s", path, body)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
