package watch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNoise(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		every time.Duration
		want  int // of the event that is the first too many; 0 for none
	}{
		"2,000 a second":             {500 * time.Microsecond, noiseLimit + 1},
		"a burst":                    {0, noiseLimit + 1},
		"ten a second, for a minute": {100 * time.Millisecond, 0},
		"400 a second":               {2500 * time.Microsecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var s noise
			got := 0
			for i := 1; i <= 600 && got == 0; i++ {
				if s.loud(start.Add(time.Duration(i) * test.every)) {
					got = i
				}
			}
			if got != test.want {
				t.Errorf("event %d is one too many, want %d", got, test.want)
			}
		})
	}
}

// A busy file beside the watched one costs no wake-ups for long, and hides no change.
func TestABusyNeighbour(t *testing.T) {
	dir := t.TempDir()
	watched, busy := filepath.Join(dir, "bootstrap.json"), filepath.Join(dir, "access.log")
	must(t, os.WriteFile(watched, []byte("1"), 0o644))
	log, err := os.Create(busy)
	must(t, err)
	defer log.Close()
	a := newArmed([]string{watched}, nil)
	defer a.close()
	a.arm()
	var s noise
	deaf := false
	for !deaf { // as Run does
		for range 10 {
			must(t, write(log))
		}
		select {
		case e := <-a.events():
			if relevant(e.Name, a.targets) {
				t.Fatalf("an event of the neighbour means something: %v", e)
			}
			if deaf = s.loud(time.Now()); deaf {
				a.deafen()
			}
		case <-time.After(time.Minute):
			t.Fatal("no event")
		}
	}
	if a.events() != nil {
		t.Error("it listens on")
	}

	ticks := start(t, Watcher{Paths: []string{watched}, Quiet: quiet, Ceiling: 20 * quiet})
	one(t, ticks, "the watch stands", func() {})
	for range 20 * noiseLimit {
		must(t, write(log))
	}
	must(t, os.WriteFile(watched, []byte("2"), 0o644))
	await(t, ticks, "a change among the noise")
	one(t, ticks, "it listens again", func() { must(t, os.WriteFile(watched, []byte("3"), 0o644)) })
}

func write(file *os.File) error {
	_, err := file.WriteString("GET / 200\n")
	return err
}

func TestRelevant(t *testing.T) {
	paths := []string{"/etc/mesh", "/certs/tls.crt"}
	for name, want := range map[string]bool{
		"/etc/mesh":           true, // the directory itself
		"/etc/mesh/a.yaml":    true, // an entry
		"/etc/mesh/sub/b":     false,
		"/etc":                true, // on the way
		"/etc/meshes":         false,
		"/certs/tls.crt":      true,
		"/certs/tls.key":      false,
		"/certs/..data":       true, // Kubernetes swaps the volume
		"/certs":              true,
		"/var/log/syslog":     false,
		"/etc/mesh.yaml":      false,
		"/certs/tls.crt/more": true, // the file became a directory
	} {
		if got := relevant(name, paths); got != want {
			t.Errorf("relevant(%s) = %t, want %t", name, got, want)
		}
	}
	if !relevant("/a", []string{"/a/b"}) || !relevant("/", []string{"/a/b"}) {
		t.Error("the root and its entries are on the way")
	}
}

func TestDirectories(t *testing.T) {
	root := real(t.TempDir())
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	must(t, os.MkdirAll(at("dir", "sub"), 0o755))
	must(t, os.WriteFile(at("dir", "file"), nil, 0o644))
	must(t, os.Symlink("dir", at("link")))

	for name, test := range map[string]struct {
		path string
		want []string
	}{
		"a directory and the one above it":  {at("dir", "sub"), []string{at("dir", "sub"), at("dir")}},
		"a file by its directory":           {at("dir", "file"), []string{at("dir")}},
		"nothing yet: the nearest above it": {at("none", "deeper", "file"), []string{root}},
		"a link by its directory alone":     {at("link"), []string{root}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, directories(test.path)); diff != "" {
				t.Errorf("directories(%s) (-want +got):\n%s", test.path, diff)
			}
		})
	}
}

func TestFollow(t *testing.T) {
	root := real(t.TempDir())
	at := func(name string) string { return filepath.Join(root, name) }
	must(t, os.Mkdir(at("..v1"), 0o755))
	must(t, os.WriteFile(at("..v1/crt"), nil, 0o644))
	must(t, os.Symlink("..v1", at("..data")))
	must(t, os.Symlink("..data/crt", at("crt")))
	must(t, os.Symlink("nowhere", at("dangling")))

	for path, want := range map[string][]string{
		at("crt"):           {at("..v1/crt"), at("crt")},
		at("..data/crt"):    {at("..v1/crt")},
		at("..data/none/x"): {at("..v1/none/x")},
		at("none"):          {at("none")},
		at("dangling"):      {at("dangling")},
	} {
		if diff := cmp.Diff(want, follow([]string{path})); diff != "" {
			t.Errorf("follow(%s) (-want +got):\n%s", path, diff)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
