package watch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
