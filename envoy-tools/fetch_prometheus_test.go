package envoytools_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeBuilder is a go that makes empty programs where it is told to, or fails as $FAIL says.
const fakeBuilder = `#!/bin/sh
printf '%s %s %s\n' "$(pwd -P)" "$CGO_ENABLED" "$*" >>"$CALLS"
[ -z "$FAIL" ] || { echo 'no such module' >&2; exit 1; }
while [ "$1" != -o ]; do shift; done
for program; do case $program in */cmd/*) : >"$2${program##*/}" ;; esac; done
`

func TestFetchPrometheus(t *testing.T) {
	for _, tt := range []struct {
		name   string
		module bool // whether e2e/wire/prometheus is there
		fail   string
		fails  bool
		stderr string
	}{
		{"built", true, "", false, "takes minutes the first time"},
		{"no module", true, "yes", true, "no such module\nfetch-prometheus: go could not fetch or build Prometheus"},
		{"a checkout without its tests", false, "", true, "e2e/wire/prometheus"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile("fetch-prometheus")
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(dir, "envoy-tools", "fetch-prometheus")
			script(t, program, string(text))
			for _, tool := range []string{"dirname", "flock", "mkdir", "sh"} {
				linkTool(t, dir, tool)
			}
			script(t, filepath.Join(dir, "path", "go"), fakeBuilder)
			module := filepath.Join(dir, "e2e", "wire", "prometheus")
			if tt.module {
				script(t, filepath.Join(module, "go.mod"), "module x")
			}
			calls := filepath.Join(dir, "calls")
			for range 2 { // go sees by itself what is built
				var stderr bytes.Buffer
				cmd := exec.CommandContext(t.Context(), program)
				cmd.Env = []string{"PATH=" + filepath.Join(dir, "path"), "CALLS=" + calls, "FAIL=" + tt.fail}
				cmd.Stderr = &stderr
				if err := cmd.Run(); (err != nil) != tt.fails || !strings.Contains(stderr.String(), tt.stderr) {
					t.Errorf("error %v, want one: %t, and %q; stderr:\n%s", err, tt.fails, tt.stderr, &stderr)
				}
			}
			called, _ := os.ReadFile(calls)
			if want := module + " 0 build -trimpath -tags remove_all_sd,grpcnotrace "; tt.module && strings.Count(string(called), want) != 2 || !tt.module && len(called) > 0 {
				t.Errorf("go was asked:\n%s\nwant %q twice, if there is the module", called, want)
			}
			built, _ := filepath.Glob(filepath.Join(dir, "bin", "prometheus", "prom*"))
			if want := 2; tt.fails && len(built) > 0 || !tt.fails && len(built) != want {
				t.Errorf("built are %v", built)
			}
		})
	}
}
