package watch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDue(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const quiet, ceiling = 100 * time.Millisecond, time.Second
	for name, test := range map[string]struct{ last, want time.Duration }{
		"one change waits for quiet":           {0, quiet},
		"another one starts quiet anew":        {50 * time.Millisecond, 150 * time.Millisecond},
		"the ceiling ends an unending burst":   {950 * time.Millisecond, ceiling},
		"just before the ceiling quiet counts": {899 * time.Millisecond, 999 * time.Millisecond},
		"never later than the ceiling":         {2 * time.Second, ceiling},
	} {
		t.Run(name, func(t *testing.T) {
			if got := due(start, start.Add(test.last), quiet, ceiling).Sub(start); got != test.want {
				t.Errorf("due = %v, want %v", got, test.want)
			}
		})
	}
}

func TestInterval(t *testing.T) {
	for name, test := range map[string]struct {
		recheck time.Duration
		blind   bool
		want    time.Duration
	}{
		"as asked for":                       {30 * time.Second, false, 30 * time.Second},
		"never":                              {0, false, 0},
		"blind, it polls":                    {30 * time.Second, true, poll},
		"blind, it polls though asked never": {0, true, poll},
		"blind, but asked to look more":      {poll / 2, true, poll / 2},
	} {
		if got := interval(test.recheck, test.blind); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestRun is the one test on the real file system: each step changes something, and a tick follows.
func TestRun(t *testing.T) {
	root := t.TempDir()
	dir, file := filepath.Join(root, "mesh"), filepath.Join(root, "certs", "tls.crt")
	write := func(path, text string) func() {
		return func() { must(t, os.WriteFile(path, []byte(text), 0o644)) }
	}
	mkdir := func(path string) func() { return func() { must(t, os.MkdirAll(path, 0o755)) } }
	link := func(to, path string) func() {
		return func() {
			must(t, os.Symlink(to, path+"_tmp"))
			must(t, os.Rename(path+"_tmp", path))
		}
	}

	ticks := start(t, Watcher{Paths: []string{dir, file}, Quiet: quiet, Ceiling: 20 * quiet})
	one(t, ticks, "the watch stands", func() {})
	one(t, ticks, "the directory appears", mkdir(dir))
	one(t, ticks, "a file is made", write(dir+"/a.yaml", "1"))
	one(t, ticks, "a file is written in place", write(dir+"/a.yaml", "2"))
	one(t, ticks, "a file is renamed over", func() {
		write(dir+"/.a.yaml.swp", "3")()
		must(t, os.Rename(dir+"/.a.yaml.swp", dir+"/a.yaml"))
	})
	one(t, ticks, "a file is deleted", func() { must(t, os.Remove(dir+"/a.yaml")) })
	early, took := 0, time.Duration(0)
	n := one(t, ticks, "a burst", func() {
		began := time.Now()
		for i := range 200 {
			write(dir+"/b.yaml", string(rune('a'+i%26)))()
			select {
			case <-ticks:
				early++
			default:
			}
		}
		took = time.Since(began)
	})
	if most := 3 + int(took/quiet); early+n > most { // a busy machine may pause in the middle of it, often
		t.Errorf("a burst of 200 changes in %s ticked %d times, want at most %d", took, early+n, most)
	}
	one(t, ticks, "the directory is deleted", func() { must(t, os.RemoveAll(dir)) })
	one(t, ticks, "and made anew", mkdir(dir))
	one(t, ticks, "and written to", write(dir+"/a.yaml", "4"))
	one(t, ticks, "deleted and made anew at once, perhaps of the same inode", func() {
		must(t, os.RemoveAll(dir))
		mkdir(dir)()
	})
	one(t, ticks, "and written to again", write(dir+"/a.yaml", "4"))
	one(t, ticks, "another directory takes its place", func() {
		mkdir(dir + ".new")()
		must(t, os.Rename(dir, dir+".old"))
		must(t, os.Rename(dir+".new", dir))
	})
	one(t, ticks, "and is written to", write(dir+"/a.yaml", "5"))

	one(t, ticks, "a file's directory appears", mkdir(filepath.Dir(file)))
	one(t, ticks, "a volume is mounted", func() {
		mkdir(filepath.Dir(file) + "/..v1")()
		write(filepath.Dir(file)+"/..v1/tls.crt", "1")()
		link("..v1", filepath.Dir(file)+"/..data")()
		link("..data/tls.crt", file)()
	})
	one(t, ticks, "..data is swapped", func() {
		mkdir(filepath.Dir(file) + "/..v2")()
		write(filepath.Dir(file)+"/..v2/tls.crt", "2")()
		link("..v2", filepath.Dir(file)+"/..data")()
	})
	one(t, ticks, "the far end of the link is written to", write(filepath.Dir(file)+"/..v2/tls.crt", "3"))
}

// A directory that is deleted loses its watch; the next one may have its inode, and looks like the same.
func TestArmRenewsALostWatch(t *testing.T) {
	dir := real(t.TempDir())
	a := newArmed([]string{dir}, slog.New(slog.DiscardHandler))
	defer a.close()
	a.arm()
	must(t, a.notify.Remove(dir))
	a.arm()
	if !slices.Contains(a.notify.WatchList(), dir) {
		t.Errorf("the watches are %v, want %s among them", a.notify.WatchList(), dir)
	}
}

func TestRecheckTicksWithoutAnyChange(t *testing.T) {
	ticks := start(t, Watcher{Paths: []string{t.TempDir()}, Recheck: time.Millisecond})
	for range 3 {
		await(t, ticks, "a recheck")
	}
}

// start runs w until the test ends and waits for it to be gone.
func start(t *testing.T, w Watcher) <-chan struct{} {
	t.Helper()
	w.Log = slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	ticks, done := make(chan struct{}, 1), make(chan error)
	go func() { done <- w.Run(ctx, ticks) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ticks
}

// quiet is the quiet period of TestRun.
const quiet = 50 * time.Millisecond

// one expects a tick after do. It returns how many came before calm: one too many is allowed, it costs a read.
func one(t *testing.T, ticks <-chan struct{}, what string, do func()) (n int) {
	t.Helper()
	do()
	await(t, ticks, what)
	for n = 1; ; n++ {
		select {
		case <-ticks:
		case <-time.After(3 * quiet):
			return n
		}
	}
}

func await(t *testing.T, ticks <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-ticks:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s: no tick", what)
	}
}

func TestAppears(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after func(dir string) error
		there         bool
	}{
		"there already":      {before: func(dir string) error { return os.Mkdir(filepath.Join(dir, "it"), 0o700) }, there: true},
		"created":            {after: func(dir string) error { return os.WriteFile(filepath.Join(dir, "it"), nil, 0o600) }, there: true},
		"a link to nothing":  {after: func(dir string) error { return os.Symlink("nothing", filepath.Join(dir, "it")) }, there: true},
		"another file":       {after: func(dir string) error { return os.WriteFile(filepath.Join(dir, "its"), nil, 0o600) }},
		"nothing":            {},
		"its directory also": {before: os.Remove, after: func(dir string) error { return os.MkdirAll(filepath.Join(dir, "it"), 0o700) }, there: true},
		"renamed": {
			before: func(dir string) error { return os.WriteFile(filepath.Join(dir, "other"), nil, 0o600) },
			after:  func(dir string) error { return os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, "it")) }, there: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "dir")
			limit := time.Minute
			if !test.there {
				limit = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := os.Mkdir(dir, 0o700)
			if test.before != nil {
				err = errors.Join(err, test.before(dir))
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				Appears(ctx, filepath.Join(dir, "it"))
			}()
			if test.after != nil {
				err = errors.Join(err, test.after(dir))
			}
			<-done
			if (ctx.Err() == nil) != test.there || err != nil {
				t.Errorf("it has waited until %v, %v; want it there: %v", ctx.Err(), err, test.there)
			}
		})
	}
}
