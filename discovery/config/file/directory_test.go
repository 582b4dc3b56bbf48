package file

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
)

const written = "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: a}\nspec: {egress: [{hosts: ['%s']}]}\n"

func sidecarTo(t *testing.T, hosts string) config.Written {
	t.Helper()
	all := config.ReadWritten([]byte(strings.Replace(written, "%s", hosts, 1)), "default")
	if len(all) != 1 || all[0].Object == nil {
		t.Fatalf("it is read as %+v", all)
	}
	return all[0]
}

func opened(t *testing.T, dir string) *Directory {
	t.Helper()
	d, err := OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A link stays, the mode stays, a file of JSON stays JSON, and no temporary file remains.
func TestApplyReplacesWhatIsThere(t *testing.T) {
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "real.json")
	text := `{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": {"name": "a"}, "spec": {}}`
	if err := os.WriteFile(elsewhere, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "link.json")); err != nil {
		t.Fatal(err)
	}
	verb, first, err := opened(t, dir).Apply(sidecarTo(t, "./*"))
	if err != nil || verb != "configured" {
		t.Fatalf("it is %s, %v", verb, err)
	}
	data, err := os.ReadFile(elsewhere)
	if err != nil || !strings.HasPrefix(string(data), "{\n  \"apiVersion\"") || !strings.Contains(string(data), "./*") {
		t.Errorf("the file is %s, %v", data, err)
	}
	if info, err := os.Stat(elsewhere); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file's mode is %v, %v", info.Mode(), err)
	}
	if info, err := os.Lstat(filepath.Join(dir, "link.json")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
	if verb, again, err := opened(t, dir).Apply(sidecarTo(t, "./*")); err != nil || verb != "unchanged" || again != first {
		t.Errorf("applied again it is %s, %s after %s, %v", verb, again, first, err)
	}
}

// If nothing can be written the old file stays, and no temporary file remains.
func TestApplyWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	d := opened(t, dir)
	if _, _, err := d.Apply(sidecarTo(t, "./*")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sidecar.default.a.yaml")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir + ".gone") })
	if _, _, err := d.Apply(sidecarTo(t, "istio-system/*")); err == nil {
		t.Error("it is written into a directory that is gone")
	}
	if after, err := os.ReadFile(filepath.Join(dir+".gone", "sidecar.default.a.yaml")); err != nil || string(after) != string(before) {
		t.Errorf("the file is %s, %v", after, err)
	}
}

// A file with the name for an object that does not hold this object is not overwritten; neither is one that cannot be
// read completely.
func TestApplyOverwritesNothingElse(t *testing.T) {
	for name, text := range map[string]string{
		"another object":  strings.Replace(strings.Replace(written, "name: a", "name: b", 1), "%s", "./*", 1),
		"not to be read":  "a: [",
		"beside the same": strings.Replace(written, "%s", "./*", 1) + "---\na: [",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sidecar.default.a.yaml")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := opened(t, filepath.Dir(path)).Apply(sidecarTo(t, "istio-system/*")); err == nil || !strings.Contains(err.Error(), "sidecar.default.a.yaml") {
				t.Errorf("it ends with %v", err)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != text {
				t.Errorf("the file is %s, %v", data, err)
			}
		})
	}
}
