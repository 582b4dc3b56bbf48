package file

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// A file of settings that is being written is not read: a part of it may be valid, and is not what the mesh is to have.
func TestSettingsThatAreBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	const whole = "accessLogFile: /dev/stdout\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}\n"
	half := strings.Index(whole, "outbound")
	w, err := os.Create(path)
	must(t, err)
	say := func(text string) {
		_, err := w.WriteString(text)
		must(t, err)
	}
	ticks, updates := make(oneTicker), make(chan model.Update)
	start(t, Settings{"MeshConfig", path, ticks, slog.New(slog.DiscardHandler)}, updates)
	quiet := func(what string) {
		t.Helper()
		ticks <- struct{}{}
		select {
		case u := <-updates:
			t.Fatalf("%s: %+v", what, u)
		case <-time.After(2 * writePoll):
		}
	}
	mode := func() meshconfig.MeshConfig_OutboundTrafficPolicy_Mode {
		t.Helper()
		u := receive(t, updates)
		if len(u.Groups["MeshConfig"].Objects) != 1 || !u.Synced {
			t.Fatalf("got %+v", u)
		}
		return u.Groups["MeshConfig"].Objects[0].Spec.(*meshconfig.MeshConfig).GetOutboundTrafficPolicy().GetMode()
	}
	quiet("an empty file at the start")
	say(whole[:half])
	quiet("half a file at the start")
	say(whole[half:])
	must(t, w.Close()) // for which there is no tick
	if got := mode(); got != meshconfig.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY {
		t.Errorf("the mode is %v", got)
	}
	w, err = os.Create(path)
	must(t, err)
	say(whole[:half])
	quiet("half a file")
	say("outboundTrafficPolicy: {mode: ALLOW_ANY}\n")
	must(t, w.Close())
	if got := mode(); got != meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY {
		t.Errorf("the mode is %v", got)
	}
}

func TestAWriterThatDoesNotEnd(t *testing.T) {
	var w waiting
	now := time.Unix(0, 0)
	for _, step := range []struct {
		after time.Duration
		stat  Stat
		want  bool
	}{
		{0, Stat{Size: 1}, true},
		{0, Stat{Size: 2, Writing: true}, false},
		{writeWait - 1, Stat{Size: 2, Writing: true}, false},
		{writeWait - 1, Stat{Size: 3, Writing: true}, false},
		{2*writeWait - 2, Stat{Size: 3, Writing: true}, false},
		{2*writeWait - 1, Stat{Size: 3, Writing: true}, true},
		{2 * writeWait, Stat{Size: 4, Writing: true}, false},
		{2 * writeWait, Stat{Size: 4}, true},
	} {
		if got := w.done(step.stat, now.Add(step.after)); got != step.want {
			t.Errorf("after %s, %+v: %t", step.after, step.stat, got)
		}
	}
}

// oneTicker is a Ticker that ticks when the test does.
type oneTicker chan struct{}

func (o oneTicker) Run(ctx context.Context, ticks chan<- struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o:
		}
		select {
		case <-ctx.Done():
			return nil
		case ticks <- struct{}{}:
		}
	}
}
