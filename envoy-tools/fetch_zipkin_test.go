package envoytools_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fakeMaven "downloads" $JAR, or fails where there is none.
const fakeMaven = `#!/bin/sh
echo "$*" >>"$CALLS"
for argument; do
	case $argument in -DoutputDirectory=*) cp "$JAR" "${argument#*=}/zipkin-server-3.6.1-exec.jar" ;; esac
done
`

func TestFetchZipkin(t *testing.T) {
	for _, tt := range []struct {
		name      string
		there     string // what bin/zipkin.jar is before; "" for nothing
		served    string // what Maven has; "" for nothing
		maven     bool
		fails     bool
		stderr    string // what it must say
		installed string // what bin/zipkin.jar is afterwards
		asked     bool   // whether Maven was
	}{
		{name: "nothing there: fetched", served: "zipkin", maven: true, installed: "zipkin", asked: true},
		{name: "installed before", there: "zipkin", installed: "zipkin"},
		{name: "half of it there: fetched", there: "zip", served: "zipkin", maven: true, installed: "zipkin", asked: true},
		{name: "no Maven", fails: true, stderr: "apt-get install maven"},
		{name: "no registry", maven: true, fails: true, stderr: "mvn could not download", asked: true},
		{
			name: "another jar", there: "old", served: "changed", maven: true, asked: true,
			fails: true, stderr: "not installed", installed: "old",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			text, err := os.ReadFile("fetch-zipkin")
			if err != nil {
				t.Fatal(err)
			}
			// The script's own hash is that of a jar of 135 MB.
			pinned := regexp.MustCompile(`(?m)^sha256=[0-9a-f]{64}$`)
			if !pinned.Match(text) {
				t.Fatal("fetch-zipkin pins no hash")
			}
			text = pinned.ReplaceAll(text, fmt.Appendf(nil, "sha256=%x", sha256.Sum256([]byte("zipkin"))))
			script(t, filepath.Join(dir, "envoy-tools", "fetch-zipkin"), string(text))
			for _, tool := range []string{"cut", "dirname", "mkdir", "mktemp", "mv", "rm", "sh", "sha256sum", "cp"} {
				linkTool(t, dir, tool)
			}
			dest, jar := filepath.Join(dir, "bin", "zipkin.jar"), filepath.Join(dir, "jar")
			for path, content := range map[string]string{dest: tt.there, jar: tt.served} {
				if content != "" {
					script(t, path, content)
				}
			}
			if tt.maven {
				script(t, filepath.Join(dir, "path", "mvn"), fakeMaven)
			}
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "envoy-tools", "fetch-zipkin"))
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "path"), "CALLS=" + filepath.Join(dir, "calls"), "JAR=" + jar}
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); (err != nil) != tt.fails || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("error %v, want one: %t, and %q; stderr:\n%s", err, tt.fails, tt.stderr, &stderr)
			}
			if !tt.fails && strings.TrimSpace(stdout.String()) != dest {
				t.Errorf("stdout = %q, want %s", &stdout, dest)
			}
			if got, _ := os.ReadFile(dest); string(got) != tt.installed {
				t.Errorf("bin/zipkin.jar is %q, want %q", got, tt.installed)
			}
			if _, err := os.Stat(filepath.Join(dir, "calls")); (err == nil) != tt.asked {
				t.Errorf("Maven asked: %t, want %t", err == nil, tt.asked)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "bin", ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
