package file

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/testing/protocmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/watch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, sub := range []string{"g.yaml", "sub/deep", ".git", "..v1", "volume/..v1"} {
		must(t, os.MkdirAll(at(sub), 0o755))
	}
	for _, name := range []string{
		"b.yaml", "a.yml", "c.json", "d.txt", ".e.yaml", "f.yaml~", "yaml", "g.yaml/in.yaml",
		"sub/deep/k.yaml", ".git/l.yaml", "..v1/m.yaml", "volume/..v1/n.yaml",
	} {
		must(t, os.WriteFile(at(name), []byte(name), 0o644))
	}
	for name, to := range map[string]string{
		"h.yaml": "b.yaml", "i.yaml": "nowhere", "sub/loop": "..", "twice": "sub/deep", "dev.yaml": "/dev/zero",
		"volume/..data": "..v1", "volume/n.yaml": "..data/n.yaml",
	} {
		must(t, os.Symlink(to, at(name)))
	}
	must(t, syscall.Mkfifo(at("j.yaml"), 0o644))
	must(t, os.WriteFile(at("large.yaml"), nil, 0o644))
	must(t, os.Truncate(at("large.yaml"), 1<<30))

	files, err := Read(dir)
	must(t, err)
	var got []string
	for _, f := range files {
		text := string(f.Data)
		if f.Err != nil {
			text = f.Err.Error()
		}
		got = append(got, strings.TrimPrefix(f.Name, dir+"/")+": "+text)
	}
	want := []string{
		"a.yml: a.yml", "b.yaml: b.yaml", "c.json: c.json", "dev.yaml: is a device, want a file", "g.yaml/in.yaml: g.yaml/in.yaml",
		"h.yaml: b.yaml", "i.yaml: no such file or directory", "j.yaml: is a pipe, want a file",
		"large.yaml: is too long: it has 1024 MiB, want at most 16 MiB: put its objects into several files", "sub/deep/k.yaml: sub/deep/k.yaml",
		"volume/n.yaml: volume/..v1/n.yaml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if files, err := Read(at("d.txt")); err != nil || len(files) != 1 || string(files[0].Data) != "d.txt" {
		t.Errorf("a file by its own name: %v, %v", files, err)
	}
	if _, err := Read(at("none")); err == nil {
		t.Error("a missing directory is no error")
	}
}

// All files together have a limit, too, and the file that exceeds it is named.
func TestReadBoundsTheSum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	must(t, os.WriteFile(path, []byte("12345"), 0o644))
	never := func(Stat) bool { return false }
	if f := read(path, 5, never); f.Err != nil || len(f.Data) != 5 {
		t.Errorf("five bytes of five: %+v", f)
	}
	if f := read(path, 4, never); f.Err == nil || !strings.Contains(f.Err.Error(), "want at most 256 MiB of configuration in all files") {
		t.Errorf("five bytes of four: %+v", f)
	}
	s := newState(0)
	s.replace("b.yaml", nil, &parsed{stat: Stat{Size: maxTotal - 4}}, map[string]bool{})
	if found := s.read([]string{path}, time.Now()); len(found) != 1 || len(found[0].problems) != 1 {
		t.Errorf("with all that is known: %+v", found)
	}
}

// A file without an end is not read to its end.
func TestReadAllIsBounded(t *testing.T) {
	if f := ReadAll("stdin", endless{}); f.Err == nil || f.Data != nil || !strings.Contains(f.Err.Error(), "is too long: it has more than 64 MiB") {
		t.Errorf("of an endless input %d bytes are read, %v", len(f.Data), f.Err)
	}
	if f := ReadAll("stdin", strings.NewReader("a: b")); f.Err != nil || string(f.Data) != "a: b" || f.Name != "stdin" {
		t.Errorf("of a short one: %+v", f)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// A file that a process has open for writing is not finished, with any content.
func TestReadSeesAWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	w, err := os.Create(path)
	must(t, err)
	defer w.Close()
	always := func(Stat) bool { return true }
	if f := read(path, maxTotal, always); !f.Unfinished || !f.Stat.Writing {
		t.Errorf("while it is open for writing: %+v", f)
	}
	if f := read(path, maxTotal, func(Stat) bool { return false }); f.Unfinished || f.Err != nil {
		t.Errorf("when it is not waited for: %+v", f)
	}
	must(t, w.Close())
	if f := read(path, maxTotal, always); f.Unfinished || f.Stat.Writing {
		t.Errorf("when it is closed: %+v", f)
	}
}

// manual is a Watcher that reports changes when the test sends them.
type manual chan watch.Changes

func (m manual) Run(ctx context.Context, changes chan<- watch.Changes) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-m:
			changes <- c
		}
	}
}

// TestSource makes a series of changes in one directory.
func TestSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mesh")
	write := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		hand, updates := manual(make(chan watch.Changes)), make(chan model.Update, 1)
		start(t, &Source{Path: dir, Watcher: hand, Log: slog.New(slog.NewTextHandler(&log, nil))}, updates)
		// tick triggers a look and compares the update that the source sends and the problems that it logs.
		tick := func(what string, want *model.Update, problems ...string) {
			t.Helper()
			log.Reset()
			hand <- watch.Changes{All: true}
			synctest.Wait()
			var got *model.Update
			select {
			case u := <-updates:
				got = &u
			default:
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s: update (-want +got):\n%s", what, diff)
			}
			if n := strings.Count(log.String(), "level=ERROR"); n != len(problems) {
				t.Errorf("%s: %d problems logged, want %d:\n%s", what, n, len(problems), &log)
			}
			for _, p := range problems {
				if !strings.Contains(log.String(), p) {
					t.Errorf("%s: the log does not say %q:\n%s", what, p, &log)
				}
			}
		}
		changed := func(key string, g model.Group) *model.Update {
			return &model.Update{Groups: map[string]model.Group{key: g}, Synced: true}
		}
		const a = "DestinationRule/default/a"

		tick("a missing directory is not synced", nil, "no such file")
		tick("the same fault is logged once", nil)
		must(t, os.Mkdir(dir, 0o755))
		write("broken.yaml", "a: b: c")
		tick("the first update names a file whose objects are unknown", changed("file "+filepath.Join(dir, "broken.yaml"), model.Group{
			Faults: []string{"line 1: mapping values are not allowed in this context"}, Unread: true,
		}), "broken.yaml", "configuration cannot be used, and no good form of it was read since the start")
		must(t, os.Remove(filepath.Join(dir, "broken.yaml")))
		tick("it is gone", emptied(changed("file "+filepath.Join(dir, "broken.yaml"), model.Group{})))
		write("a.yaml", rule("a", "x"))
		tick("a new file", changed(a, model.Group{Objects: []*model.Object{{
			Meta: model.Meta{
				Kind: "DestinationRule", Namespace: "default", Name: "a",
				Origin: model.Origin{File: filepath.Join(dir, "a.yaml"), Line: 1},
			},
			Spec: &networking.DestinationRule{Host: "x"},
		}}}))
		write("a.yaml", "a: [")
		tick("it breaks", nil, "a.yaml")
		tick("it stays broken", nil)
		must(t, os.Rename(dir, dir+".gone"))
		tick("the directory goes away", nil, "no such file")
		must(t, os.Rename(dir+".gone", dir))
		must(t, os.Remove(filepath.Join(dir, "a.yaml")))
		tick("it is back, the file is not", emptied(changed(a, model.Group{})))
	})
}

// emptied returns an update after which no object is left.
func emptied(u *model.Update) *model.Update {
	u.Emptied = true
	return u
}

// TestNew waits for an update through the real watcher.
func TestNew(t *testing.T) {
	dir := t.TempDir()
	updates := make(chan model.Update)
	start(t, New(dir, 0, slog.New(slog.DiscardHandler)), updates)
	expect(t, updates, model.Update{Groups: map[string]model.Group{}, Synced: true, Emptied: true})
	must(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(rule("a", "x")), 0o644))
	if u := receive(t, updates); len(u.Groups) != 1 {
		t.Errorf("a new file: %+v", u)
	}
}

// A file that is written in place, slowly, never removes services: neither while it is empty, nor while it ends between
// two objects, nor while its writer pauses. It is read when the writer has closed it.
func TestSourceSlowWriter(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	var text strings.Builder
	for i := range 20 {
		text.WriteString("---\n" + rule(fmt.Sprint("r", i), "x"))
	}
	must(t, os.WriteFile(path, []byte(text.String()), 0o644))
	updates := make(chan model.Update)
	source := New(dir, 0, slog.New(slog.DiscardHandler))
	start(t, source, updates)
	if u := receive(t, updates); len(u.Groups) != 20 {
		t.Fatalf("the first update has %d groups, want 20", len(u.Groups))
	}
	half := strings.ReplaceAll(text.String(), "host: x", "host: y")
	half = half[:strings.Index(half, "---\n{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: r10}")]
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	defer w.Close()
	awaitWaiting(t, source, path)
	_, err = w.WriteString(half)
	must(t, err)
	quietly(t, updates, 5*writePoll)
	awaitWaiting(t, source, path)
	_, err = w.WriteString(strings.ReplaceAll(text.String(), "host: x", "host: y")[len(half):])
	must(t, err)
	must(t, w.Close())
	u := receive(t, updates)
	for key, g := range u.Groups {
		if g.Empty() {
			t.Errorf("%s is gone", key)
		}
	}
	if len(u.Groups) != 20 {
		t.Errorf("%d groups changed, want 20", len(u.Groups))
	}
}

func awaitWaiting(t *testing.T, s *Source, path string) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for len(s.Status().Waiting) != 1 || s.Status().Waiting[0] != path {
		select {
		case <-deadline:
			t.Fatalf("waiting is %v, want %s", s.Status().Waiting, path)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func quietly(t *testing.T, updates <-chan model.Update, long time.Duration) {
	t.Helper()
	select {
	case u := <-updates:
		t.Errorf("an update: %v", shown(u.Groups))
	case <-time.After(long):
	}
}

// Moving files into a directory changes nothing for proxies; and edits in that directory are detected.
func TestSourceTree(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(rule("a", "x")), 0o644))
	updates := make(chan model.Update)
	start(t, New(dir, 0, slog.New(slog.DiscardHandler)), updates)
	expectChanges := func(what string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, shown(receive(t, updates).Groups)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	const a = "DestinationRule/default/a"
	expectChanges("at first", map[string]string{a: filepath.Join(dir, "a.yaml") + ":1 x"})
	moved := filepath.Join(dir, "shop", "a.yaml")
	must(t, os.Mkdir(filepath.Dir(moved), 0o755))
	must(t, os.Rename(filepath.Join(dir, "a.yaml"), moved))
	expectChanges("moved", map[string]string{a: moved + ":1 x"})
	must(t, os.WriteFile(moved, []byte(rule("a", "y")), 0o644))
	expectChanges("edited", map[string]string{a: moved + ":1 y"})
	must(t, os.RemoveAll(filepath.Dir(moved)))
	expectChanges("deleted", map[string]string{a: ""})
}

// start runs s until the test ends, and waits for its end.
func start(t *testing.T, s interface {
	Run(context.Context, chan<- model.Update) error
}, updates chan<- model.Update,
) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx, updates); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func expect(t *testing.T, updates <-chan model.Update, want model.Update) {
	t.Helper()
	if diff := cmp.Diff(want, receive(t, updates)); diff != "" {
		t.Errorf("update (-want +got):\n%s", diff)
	}
}

func receive(t *testing.T, updates <-chan model.Update) model.Update {
	t.Helper()
	select {
	case u := <-updates:
		return u
	case <-time.After(30 * time.Second):
		t.Fatal("no update")
		return model.Update{}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A directory that has no object, or no longer, is probably the wrong one: the log says that nothing is served from it.
func TestADirectoryWithoutObjectsIsNamed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		hand, updates := manual(make(chan watch.Changes)), make(chan model.Update, 1)
		start(t, &Source{Path: dir, Watcher: hand, Log: slog.New(slog.NewTextHandler(&log, nil))}, updates)
		for _, step := range []struct {
			text  string
			named bool
		}{
			{"", true},
			{"{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: a}, spec: {host: a.test}}", false},
			{"# nothing", true},
		} {
			if step.text != "" {
				must(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(step.text), 0o644))
			}
			log.Reset()
			hand <- watch.Changes{All: true}
			synctest.Wait()
			<-updates
			if named := strings.Contains(log.String(), "level=WARN msg=\"configuration has no object: nothing is served from it\" path="+dir); named != step.named {
				t.Errorf("%q: named is %t:\n%s", step.text, named, &log)
			}
		}
	})
}

func TestMetrics(t *testing.T) {
	s := &Source{}
	s.status.Store(&Status{
		Lost: []string{"d"}, Held: "x", HeldNow: 4,
		Kinds: map[string]Count{"Gateway": {Served: 5, LastGood: 1, Held: 4}, "Sidecar": {Refused: 2}},
	})
	registry := prometheus.NewPedanticRegistry()
	other := &Source{} // another directory
	other.status.Store(&Status{Kinds: map[string]Count{"Gateway": {Served: 7}}})
	registry.MustRegister(Metrics(func() map[string]*Source { return map[string]*Source{"config": s, "fs:///more": other} }))
	families, err := registry.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := ""
			for _, l := range m.Label {
				name += l.GetName() + "=" + l.GetValue() + " "
			}
			got[name] = m.Gauge.GetValue()
		}
	}
	want := map[string]float64{
		"kind=Gateway source=config state=served ": 5, "kind=Gateway source=config state=last_good ": 1, "kind=Gateway source=config state=refused ": 0,
		"kind=Gateway source=config state=held ": 4, "kind=Sidecar source=config state=served ": 0, "kind=Sidecar source=config state=last_good ": 0,
		"kind=Sidecar source=config state=refused ": 2, "kind=Sidecar source=config state=held ": 0,
		"source=config state=unreadable ": 1, "source=config state=waiting ": 0,
		"kind=Gateway source=fs:///more state=served ": 7, "kind=Gateway source=fs:///more state=last_good ": 0,
		"kind=Gateway source=fs:///more state=refused ": 0, "kind=Gateway source=fs:///more state=held ": 0,
		"source=fs:///more state=unreadable ": 0, "source=fs:///more state=waiting ": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
}
