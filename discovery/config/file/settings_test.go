package file

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// The settings of a file are sent when they are valid, and again when they change to other valid ones.
func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	write := func(text string) {
		must(t, os.WriteFile(path+"~", []byte(text), 0o644))
		must(t, os.Rename(path+"~", path))
	}
	write("accessLogFiles: /dev/stdout") // refused
	updates := make(chan model.Update)
	start(t, NewSettings("MeshConfig", path, slog.New(slog.DiscardHandler)), updates)
	if u := receive(t, updates); u.Synced || !u.Groups["MeshConfig"].Malformed() || !strings.Contains(u.Groups["MeshConfig"].Faults[0], "mesh.yaml:1: error: ") {
		t.Errorf("of a refused file it tells %+v, want why, not synced", u)
	}
	expectLog := func(want string) {
		t.Helper()
		u := receive(t, updates)
		for u.Groups["MeshConfig"].Malformed() {
			u = receive(t, updates)
		}
		objects := u.Groups["MeshConfig"].Objects
		if len(objects) != 1 || !u.Synced {
			t.Fatalf("got %+v, want the settings, synced", u)
		}
		if got := objects[0].Spec.(*meshconfig.MeshConfig).AccessLogFile; got != want {
			t.Errorf("accessLogFile is %q, want %q", got, want)
		}
	}
	write("accessLogFile: /dev/stdout")
	expectLog("/dev/stdout")
	write("accessLogFile: [") // the last good ones stay
	write("accessLogFile: /dev/stderr")
	expectLog("/dev/stderr")
	write("{accessLogFile: /dev/stderr, ingressSelector: edge}") // the same, but for a field that is not supported
	u := receive(t, updates)
	if warnings := u.Groups["MeshConfig"].Objects[0].Warnings.All(); len(warnings) != 1 || warnings[0].Path != "ingressSelector" {
		t.Errorf("the settings have the warnings %q", warnings)
	}
}
