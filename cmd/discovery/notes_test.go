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

// A warning of an object is a note with its place for as long as the object is served: also of one that a restart has from
// the state directory while its own directory is away.
func TestServeKeepsWarnings(t *testing.T) {
	dir, state := filepath.Join(t.TempDir(), "config"), filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(line string) {
		text := "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: a}\nspec:\n  egress:\n  - port: {number: 80, name: http, protocol: HTTP" + line + "}\n    hosts: [\"./*\"]\n"
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	has := func(line string) func(string) bool {
		return func(body string) bool {
			return strings.Count(body, `"code": "warning"`) == 1 && strings.Contains(body, `"path": "spec.egress[0].port.targetPort"`) &&
				strings.Contains(body, `a.yaml",`) && strings.Contains(body, line)
		}
	}
	write(",\n      targetPort: 81")
	s := startServe(t, "--configDir", dir, "--stateDir", state)
	s.awaitPage(t, "/debug/notes", has(`"line": 7`))
	serving{web: s.stats}.awaitPage(t, "/metrics", func(body string) bool { return strings.Contains(body, `pilotlight_config_notes{code="warning"} 1`) })
	s.stop(t)
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	s = startServe(t, "--configDir", dir, "--stateDir", state, "--registrySyncTimeout", "100ms")
	s.awaitPage(t, "/debug/notes", has(`"line": 1`)) // the lines of fields are not remembered
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	s.awaitPage(t, "/debug/notes", has(`"line": 7`))
	write("")
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
