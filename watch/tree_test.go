package watch

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestTree is on the real file system: each step changes something, and the change is named, or all is.
func TestTree(t *testing.T) {
	root := filepath.Join(t.TempDir(), "mesh")
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	write := func(path, text string) func() {
		return func() { must(t, os.WriteFile(path, []byte(text), 0o644)) }
	}
	out := startTree(t, root)
	told := func(what, want string, do func()) {
		t.Helper()
		do()
		for {
			select {
			case c := <-out:
				if c.All && want == "" || slices.Contains(c.Paths, want) {
					calm(out)
					return
				}
				if c.All {
					t.Errorf("%s: all may have changed, want %s alone", what, want)
					return
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("%s: nothing was said of %q", what, want)
			}
		}
	}
	told("the watch stands", "", func() {})
	told("the directory appears", "", func() { must(t, os.Mkdir(root, 0o755)) })
	told("a file is made", at("a.yaml"), write(at("a.yaml"), "1"))
	told("a file is written in place", at("a.yaml"), write(at("a.yaml"), "2"))
	told("a file is renamed over", at("a.yaml"), func() {
		write(at(".a.swp"), "3")()
		must(t, os.Rename(at(".a.swp"), at("a.yaml")))
	})
	told("a file is deleted", at("a.yaml"), func() { must(t, os.Remove(at("a.yaml"))) })
	told("a directory is made", "", func() { must(t, os.MkdirAll(at("shop", "eu"), 0o755)) })
	told("a file in it", at("shop", "eu", "b.yaml"), write(at("shop", "eu", "b.yaml"), "1"))
	told("the directory is moved", "", func() { must(t, os.Rename(at("shop"), at("store"))) })
	told("and written to", at("store", "eu", "b.yaml"), write(at("store", "eu", "b.yaml"), "2"))
	told("the directory is deleted", "", func() { must(t, os.RemoveAll(at("store"))) })

	volume := at("volume")
	told("a volume is mounted", "", func() {
		must(t, os.MkdirAll(filepath.Join(volume, "..v1"), 0o755))
		write(filepath.Join(volume, "..v1", "c.yaml"), "1")()
		must(t, os.Symlink("..v1", filepath.Join(volume, "..data")))
		must(t, os.Symlink("..data/c.yaml", filepath.Join(volume, "c.yaml")))
	})
	told("a volume is swapped", "", func() {
		must(t, os.Mkdir(filepath.Join(volume, "..v2"), 0o755))
		write(filepath.Join(volume, "..v2", "c.yaml"), "2")()
		must(t, os.Symlink("..v2", filepath.Join(volume, "..tmp")))
		must(t, os.Rename(filepath.Join(volume, "..tmp"), filepath.Join(volume, "..data")))
	})
	other := t.TempDir()
	write(filepath.Join(other, "d.yaml"), "1")()
	told("a link leads elsewhere", "", func() { must(t, os.Symlink(other, at("link"))) })
	told("where it leads a file is written", "", write(filepath.Join(other, "d.yaml"), "2"))
	told("a link leads to its own directory", "", func() { must(t, os.Symlink(".", at("loop"))) })
	told("the root is deleted", "", func() { must(t, os.RemoveAll(root)) })
	told("and made anew", "", func() { must(t, os.MkdirAll(at("x"), 0o755)) })
	told("and written to", at("x", "e.yaml"), write(at("x", "e.yaml"), "1"))
}

// Changes that nobody has taken yet come with the next ones.
func TestTreeCollects(t *testing.T) {
	root := t.TempDir()
	out := startTree(t, root)
	<-out
	want := []string{filepath.Join(root, "a"), filepath.Join(root, "b")}
	for _, path := range want {
		must(t, os.WriteFile(path, nil, 0o644))
	}
	var got []string
	for len(got) < len(want) {
		select {
		case c := <-out:
			if c.All {
				t.Fatal("all may have changed")
			}
			got = append(got, c.Paths...)
		case <-time.After(30 * time.Second):
			t.Fatalf("told %v, want %v", got, want)
		}
	}
}

func startTree(t *testing.T, root string) <-chan Changes {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan Changes), make(chan error)
	tree := Tree{Path: root, Quiet: quiet, Ceiling: 20 * quiet, Log: slog.New(slog.DiscardHandler)}
	go func() { done <- tree.Run(ctx, out) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return out
}

// calm takes what is said until nothing more is.
func calm(out <-chan Changes) {
	for {
		select {
		case <-out:
		case <-time.After(3 * quiet):
			return
		}
	}
}
