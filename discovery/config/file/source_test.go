package file

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/testing/protocmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"b.yaml", "a.yml", "c.json", "d.txt", ".e.yaml", "f.yaml~", "yaml"} {
		must(t, os.WriteFile(at(name), []byte(name), 0o644))
	}
	must(t, os.Mkdir(at("g.yaml"), 0o755))
	must(t, os.Symlink("b.yaml", at("h.yaml")))
	must(t, os.Symlink("nowhere", at("i.yaml")))
	must(t, syscall.Mkfifo(at("j.yaml"), 0o644))

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
		"a.yml: a.yml", "b.yaml: b.yaml", "c.json: c.json", "h.yaml: b.yaml",
		"i.yaml: no such file or directory", "j.yaml: is a p---------, want a file",
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

// manual ticks when the test says so.
type manual chan struct{}

func (m manual) Run(ctx context.Context, ticks chan<- struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m:
			ticks <- struct{}{}
		}
	}
}

// TestSource walks one directory through its life.
func TestSource(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mesh")
	write := func(name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		hand, updates := manual(make(chan struct{})), make(chan model.Update, 1)
		start(t, Source{dir, hand, slog.New(slog.NewTextHandler(&log, nil))}, updates)
		// tick returns what the source says to it: its update, and the problems that it logs.
		tick := func(what string, want *model.Update, problems ...string) {
			t.Helper()
			log.Reset()
			hand <- struct{}{}
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
		tick("the first update, though a file is broken", &model.Update{Groups: map[string]model.Group{}, Synced: true}, "broken.yaml")
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
		tick("it is back, the file is not", changed(a, model.Group{}), "broken.yaml")
	})
}

// TestNew has the real watcher bring an update.
func TestNew(t *testing.T) {
	dir := t.TempDir()
	updates := make(chan model.Update)
	start(t, New(dir, slog.New(slog.DiscardHandler)), updates)
	expect(t, updates, model.Update{Groups: map[string]model.Group{}, Synced: true})
	must(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(rule("a", "x")), 0o644))
	if u := receive(t, updates); len(u.Groups) != 1 {
		t.Errorf("a new file: %+v", u)
	}
}

// start runs s until the test ends and waits for it to be gone.
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
	case <-time.After(10 * time.Second):
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
