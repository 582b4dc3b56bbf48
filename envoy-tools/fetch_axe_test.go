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

// fakeNpm "packs" $ARCHIVE, or fails where there is none.
const fakeNpm = `#!/bin/sh
echo "$*" >>"$CALLS"
cp "$ARCHIVE" axe-core-4.10.3.tgz
`

func TestFetchAxe(t *testing.T) {
	for _, tt := range []struct {
		name      string
		there     string // what bin/axe.min.js is before; "" for nothing
		served    string // what the archive has as axe.min.js; "" for no archive
		file      string // its name in the archive, if it is another
		npm       bool
		fails     bool
		stderr    string // what it must say
		installed string // what bin/axe.min.js is afterwards
		asked     bool   // whether npm was
	}{
		{name: "nothing there: fetched", served: "axe", npm: true, installed: "axe", asked: true},
		{name: "installed before", there: "axe", installed: "axe"},
		{name: "half of it there: fetched", there: "ax", served: "axe", npm: true, installed: "axe", asked: true},
		{name: "no npm", fails: true, stderr: "apt-get install npm"},
		{name: "no registry", there: "old", npm: true, fails: true, stderr: "npm could not download", installed: "old", asked: true},
		{name: "an archive without it", served: "axe", file: "axe.js", npm: true, fails: true, stderr: "has no axe.min.js", asked: true},
		{name: "another one", there: "old", served: "changed", npm: true, fails: true, stderr: "not installed", installed: "old", asked: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			text, err := os.ReadFile("fetch-axe")
			if err != nil {
				t.Fatal(err)
			}
			pinned := regexp.MustCompile(`(?m)^sha256=[0-9a-f]{64}$`)
			if !pinned.Match(text) {
				t.Fatal("fetch-axe pins no hash")
			}
			text = pinned.ReplaceAll(text, fmt.Appendf(nil, "sha256=%x", sha256.Sum256([]byte("axe"))))
			program := filepath.Join(dir, "envoy-tools", "fetch-axe")
			script(t, program, string(text))
			for _, tool := range []string{"cp", "cut", "dirname", "gzip", "mkdir", "mktemp", "mv", "rm", "sh", "sha256sum", "tar"} {
				linkTool(t, dir, tool)
			}
			dest, archive := filepath.Join(dir, "bin", "axe.min.js"), filepath.Join(dir, "archive.tgz")
			if tt.there != "" {
				script(t, dest, tt.there)
			}
			if tt.served != "" {
				file := tt.file
				if file == "" {
					file = "axe.min.js"
				}
				script(t, filepath.Join(dir, "made", "package", file), tt.served)
				if out, err := exec.CommandContext(t.Context(), "tar", "-czf", archive, "-C", filepath.Join(dir, "made"), "package").CombinedOutput(); err != nil {
					t.Fatalf("tar: %v\n%s", err, out)
				}
			}
			if tt.npm {
				script(t, filepath.Join(dir, "path", "npm"), fakeNpm)
			}
			var stdout, stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), program)
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "path"), "CALLS=" + filepath.Join(dir, "calls"), "ARCHIVE=" + archive}
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); (err != nil) != tt.fails || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("error %v, want one: %t, and %q; stderr:\n%s", err, tt.fails, tt.stderr, &stderr)
			}
			if !tt.fails && strings.TrimSpace(stdout.String()) != dest {
				t.Errorf("stdout = %q, want %s", &stdout, dest)
			}
			if got, _ := os.ReadFile(dest); string(got) != tt.installed {
				t.Errorf("bin/axe.min.js is %q, want %q", got, tt.installed)
			}
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			if (err == nil) != tt.asked || tt.asked && !strings.Contains(string(calls), "pack --silent axe-core@4.10.3") {
				t.Errorf("npm was asked %q, want that: %t", calls, tt.asked)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "bin", ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
