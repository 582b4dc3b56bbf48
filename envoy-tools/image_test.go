package envoytools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A release is not built of other packages of Debian's than the tree names, and names those that differ; any other build says so.
func TestImageOfOtherPackages(t *testing.T) {
	recorded, err := os.ReadFile("debian-" + runtime.GOARCH + ".sha256")
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(recorded), "\n")
	for _, tt := range []struct {
		name, version, packages string
		dies                    bool
		says                    string
	}{
		{"a release of others", "v1.2.3", strings.Replace(first, "_1", "_2", 1) + "\n" + rest, true, "the base is not of the packages that envoy-tools/debian-"},
		{"a release of fewer", "v1.2.3", rest, true, "< " + first},
		{"a trial of others", "dev", rest, false, "the base is of other packages than"},
		{"a release of those", "v1.2.3", string(recorded), false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// A tree in which the base is there already, and all else is missing: the script gets as far as Envoy.
			dir := t.TempDir()
			for _, name := range []string{"image", "debian-" + runtime.GOARCH + ".sha256", "envoy.txt"} {
				copyFile(t, name, filepath.Join(dir, "envoy-tools", name))
			}
			base := filepath.Join(dir, "run", "image", "base-"+runtime.GOARCH)
			if err := os.MkdirAll(base, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(base+".packages", []byte(tt.packages), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "envoy-tools", "image"))
			cmd.Env = append(os.Environ(), "VERSION="+tt.version, "ENGINE=none")
			output, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("it builds:\n%s", output)
			}
			died := strings.Contains(string(output), "the base is not of the packages")
			if died != tt.dies || !strings.Contains(string(output), tt.says) || tt.says == "" && strings.Contains(string(output), "other packages") {
				t.Errorf("it says\n%s\nwant %s", output, tt.says)
			}
		})
	}
}

// Where CI is true, scripts that are not checked are a failure; elsewhere they are only said.
func TestLintWithoutShellcheck(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{"make", "sh"} {
		found, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(found, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, ci := range []string{"true", ""} {
		cmd := exec.CommandContext(t.Context(), "make", "-C", "..", "shellcheck")
		cmd.Env = []string{"PATH=" + path, "CI=" + ci}
		output, err := cmd.CombinedOutput()
		if (err != nil) != (ci == "true") || !strings.Contains(string(output), "shellcheck is not installed: scripts not checked") {
			t.Errorf("CI=%s: %v: %s", ci, err, output)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, info.Mode()); err != nil {
		t.Fatal(err)
	}
}
