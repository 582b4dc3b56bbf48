package statedir

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func same1(string) Of { return Of{Domain: "cluster.local", Cluster: "Kubernetes"} }

func newDirectory(path string) *Directory {
	return New(path, same1, 24*time.Hour, slog.New(slog.DiscardHandler))
}

// written writes sources to a directory, as a run that ends.
func writtenTo(t *testing.T, d *Directory, sources ...string) {
	t.Helper()
	for _, source := range sources {
		d.Keep(source, groups(), noon)
	}
	run(t, d)
}

func run(t *testing.T, d *Directory) {
	t.Helper()
	ended := make(chan struct{})
	close(ended)
	if err := d.Run(ended); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until something is true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !is() {
		select {
		case <-deadline:
			t.Fatal(what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// What a run has kept, the next one has; what it forgot is gone. The directory is made, for the user alone.
func TestDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "state")
	d := newDirectory(path)
	if got := d.Load(noon); len(got) != 0 || len(d.Lines()) != 0 {
		t.Errorf("a directory that is not there has %v, %q", got, d.Lines())
	}
	for _, source := range []string{"Consul", "Kubernetes/east", "xds://istiod:15010", strings.Repeat("ü", 300)} {
		d.Keep(source, groups(), noon)
	}
	d.Keep("config", map[string]model.Group{}, noon)
	ended, done := make(chan struct{}), make(chan error)
	go func() { done <- d.Run(ended) }() // which writes them at once: a second write comes after a pause
	eventually(t, "it is not written", func() bool { return len(newDirectory(path).Load(noon)) == 5 })
	d.Forget("Kubernetes/east")
	d.Forget("other")
	d.Keep("Consul", map[string]model.Group{"x": groups()["all"]}, noon.Add(time.Minute))
	close(ended)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	next := newDirectory(path)
	got := next.Load(noon)
	if _, east := got["Kubernetes/east"]; len(got) != 4 || east || len(next.Lines()) != 0 {
		t.Errorf("the next start has %d sources, %q", len(got), next.Lines())
	}
	if consul := got["Consul"]; len(consul.Groups) != 1 || !consul.At.Equal(noon.Add(time.Minute)) {
		t.Errorf("Consul is %v", consul)
	}
	for name, want := range map[string]fs.FileMode{"": 0o700, fileOf("Consul") + ending: 0o600, "lock": 0o600} {
		if info, err := os.Stat(filepath.Join(path, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(path, "*.tmp")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if n := testutil.CollectAndCount(d, "pilotlight_state_written_timestamp_seconds"); n != 4 {
		t.Errorf("%d sources are measured", n)
	}
}

// Writes take at most a fiftieth of the time. One that a disk has held up keeps further changes from it for a minute at most.
func TestPause(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: 0, time.Millisecond: 50 * time.Millisecond, time.Second: 50 * time.Second, 6 * time.Second: time.Minute} {
		if got := pauseAfter(took); got != want {
			t.Errorf("after a write of %s there is none for %s, want %s", took, got, want)
		}
	}
}

// A file that may not be used is named, and the others are used.
func TestFilesThatAreNotUsed(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(path string) error
		want  string
	}{
		"a link": {func(path string) error {
			return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
		}, "is a link"},
		"a pipe":      {func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }, "is not a file"},
		"a directory": {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "is not a file"},
		"readable by others": {
			func(path string) error { return os.Chmod(path, 0o644) }, "has mode 0644, want 0600",
		},
		"too large":       {func(path string) error { return os.Truncate(path, maxFile+1) }, "has more than 256 MiB"},
		"half written":    {func(path string) error { return os.Truncate(path, 1000) }, "is not whole"},
		"under a name":    {func(path string) error { return os.Rename(path, filepath.Join(filepath.Dir(path), "x.state")) }, `is of source "bad", want the name bad-`},
		"zeros at an end": {func(path string) error { return os.Truncate(path, 1<<20) }, "goes on after its last line"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			writtenTo(t, newDirectory(path), "good", "bad")
			if err := test.spoil(filepath.Join(path, fileOf("bad")+ending)); err != nil {
				t.Fatal(err)
			}
			d := newDirectory(path)
			got := d.Load(noon)
			if lines := strings.Join(d.Lines(), "\n"); len(got) != 1 || len(got["good"].Groups) != 2 || !strings.Contains(lines, test.want) || !strings.HasPrefix(lines, "state: "+path) {
				t.Errorf("%d sources, %q, want %q", len(got), lines, test.want)
			}
			d.Keep("good", groups(), noon.Add(time.Minute)) // the run goes on
			run(t, d)
			if again := newDirectory(path).Load(noon)["good"]; !again.At.Equal(noon.Add(time.Minute)) {
				t.Errorf("after a write it is of %v", again.At)
			}
		})
	}
}

// A directory in which another user could write is not used.
func TestDirectoriesThatAreNotUsed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file: "is not a directory", open: "has mode 0777, want one that lets nobody else write", filepath.Join(file, "below"): "not a directory",
	} {
		d := newDirectory(path)
		d.Load(noon)
		writtenTo(t, d, "a")
		lines := strings.Join(d.Lines(), "\n")
		if !strings.Contains(lines, want) || !strings.Contains(lines, "state: source a is not written: ") {
			t.Errorf("%s: %q, want %q", path, lines, want)
		}
	}
}

// A write that fails leaves what was written before, is named, and is made up for.
func TestAWriteFails(t *testing.T) {
	path := t.TempDir()
	d := newDirectory(path)
	writtenTo(t, d, "a")
	blocked := filepath.Join(path, fileOf("a")+".tmp")
	if err := os.MkdirAll(filepath.Join(blocked, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	d.Keep("a", groups(), noon.Add(time.Minute))
	d.Keep("b", groups(), noon)
	if !d.write() {
		t.Error("it does not fail")
	}
	lines := strings.Join(d.Lines(), "\n")
	if !strings.Contains(lines, "state: source a is not written since 2026-01-01T12:00:00Z: ") || strings.Contains(lines, "source b") {
		t.Errorf("said is %q", lines)
	}
	if got := newDirectory(path).Load(noon); len(got) != 2 || !got["a"].At.Equal(noon) {
		t.Errorf("there is %v", got["a"].At)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	if d.write() || len(d.Lines()) > 0 || !newDirectory(path).Load(noon)["a"].At.Equal(noon.Add(time.Minute)) {
		t.Errorf("it is not made up for: %q", d.Lines())
	}
	d.unlock()
}

// Of two processes one writes. The other one reads, says so, and writes when the first has ended, or the directory is another.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	first, second := newDirectory(path), newDirectory(path)
	first.Keep("a", groups(), noon)
	first.write()
	second.Keep("a", map[string]model.Group{}, noon.Add(time.Minute))
	if got := second.Load(noon); len(got) != 1 || !second.write() || !strings.Contains(strings.Join(second.Lines(), "\n"), errLocked.Error()) {
		t.Errorf("the second has %d sources, and says %q", len(got), second.Lines())
	}
	first.unlock()
	if second.write() || len(second.Lines()) > 0 || !newDirectory(path).Load(noon)["a"].At.Equal(noon.Add(time.Minute)) {
		t.Errorf("then the second says %q", second.Lines())
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	first.Keep("a", groups(), noon)
	if first.write() {
		t.Errorf("in a new directory the first says %q", first.Lines())
	}
	second.Keep("a", groups(), noon)
	if !second.write() {
		t.Error("in a new directory both write")
	}
	first.unlock()
	second.unlock()
}

// A process that was killed while it wrote leaves a part, which is not used, and which the next one replaces.
func TestKilledWhileItWrote(t *testing.T) {
	path := t.TempDir()
	writtenTo(t, newDirectory(path), "a")
	part := filepath.Join(path, fileOf("a")+".tmp")
	if err := os.WriteFile(part, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDirectory(path)
	if got := d.Load(noon); len(got) != 1 || len(d.Lines()) > 0 {
		t.Errorf("%d sources, %q", len(got), d.Lines())
	}
	writtenTo(t, d, "a")
	if _, err := os.Stat(part); !errors.Is(err, fs.ErrNotExist) || len(d.Lines()) > 0 {
		t.Errorf("the part: %v; %q", err, d.Lines())
	}
}
