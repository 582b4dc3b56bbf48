package envoytools_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeApt has the package once its lists are there, unless $FAIL is set; fakeDpkg unpacks what a package has.
const (
	fakeApt = `#!/bin/sh
printf '%s\n' "$*" >>"$CALLS"
case "$*" in
update*) [ -n "$FAIL" ] || : >"$CALLS.lists" ;;
*download*) [ -e "$CALLS.lists" ] || { echo 'E: Unable to locate package prometheus' >&2; exit 100; }
	: >prometheus_2.42.0_amd64.deb ;;
esac
`
	fakeDpkg = `#!/bin/sh
mkdir -p "$3/usr/bin" && : >"$3/usr/bin/prometheus" && : >"$3/usr/bin/promtool" && chmod 0755 "$3"/usr/bin/*
`
)

func TestFetchPrometheus(t *testing.T) {
	for _, tt := range []struct {
		name   string
		has    string // programs of PATH, besides those of every machine
		fail   string
		user   string
		fails  bool
		stderr string
		calls  int // of apt-get, in two runs
	}{
		{"downloaded", "apt-get dpkg-deb", "", "0", false, "downloading Prometheus", 3},
		{"no lists of packages, and not root", "apt-get dpkg-deb", "", "1000", true, "Unable to locate package prometheus\nfetch-prometheus: apt-get could not download", 2},
		{"no such package", "apt-get dpkg-deb", "yes", "0", true, "Unable to locate package prometheus\nfetch-prometheus: apt-get could not download", 6},
		{"no dpkg-deb", "apt-get", "", "0", true, "the package of Prometheus could not be unpacked", 4},
		{"installed", "prometheus promtool", "", "1000", false, "", 0},
		{"one of them is installed", "prometheus", "", "1000", true, "prometheus and promtool are missing, and there is no apt-get", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			text, err := os.ReadFile("fetch-prometheus")
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "envoy-tools", "fetch-prometheus")
			script(t, program, string(text))
			for _, tool := range []string{"chmod", "dirname", "flock", "ln", "mkdir", "mktemp", "mv", "rm", "sh"} {
				linkTool(t, dir, tool)
			}
			script(t, filepath.Join(dir, "path", "id"), "#!/bin/sh\necho "+tt.user+"\n")
			for name := range strings.FieldsSeq(tt.has) {
				script(t, filepath.Join(dir, "path", name), map[string]string{"apt-get": fakeApt, "dpkg-deb": fakeDpkg}[name])
			}
			calls := filepath.Join(dir, "calls")
			for i := range 2 { // the second finds what the first has left
				var stderr bytes.Buffer
				cmd := exec.CommandContext(t.Context(), program)
				cmd.Env = []string{"PATH=" + filepath.Join(dir, "path"), "CALLS=" + calls, "FAIL=" + tt.fail}
				cmd.Stderr = &stderr
				if err := cmd.Run(); (err != nil) != tt.fails || (i == 0 || tt.fails) && !strings.Contains(stderr.String(), tt.stderr) {
					t.Errorf("error %v, want one: %t, and %q; stderr:\n%s", err, tt.fails, tt.stderr, &stderr)
				}
			}
			asked, _ := os.ReadFile(calls)
			if got := strings.Count(string(asked), "\n"); got != tt.calls {
				t.Errorf("apt-get was called %d times, want %d:\n%s", got, tt.calls, asked)
			}
			left, _ := filepath.Glob(filepath.Join(dir, "bin", "*"))
			hidden, _ := filepath.Glob(filepath.Join(dir, "bin", ".*"))
			programs, _ := filepath.Glob(filepath.Join(dir, "bin", "prometheus", "prom*"))
			if len(hidden) > 0 || tt.fails && len(left) > 0 || !tt.fails && len(programs) != 2 {
				t.Errorf("left are %q, %q and %q", left, hidden, programs)
			}
		})
	}
}
