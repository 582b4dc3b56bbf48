package envoytools_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Programs that only note how they were called, and make what the real ones would. $FAIL names one that fails.
const (
	fakeGo    = "#!/bin/sh\necho go >>\"$CALLS\"\n[ \"$FAIL\" != go ]\n"
	fakeMvn   = "#!/bin/sh\necho mvn >>\"$CALLS\"\nfor a; do case $a in -DoutputDirectory=*) mkdir -p \"${a#*=}\" && : >\"${a#*=}/a.jar\" ;; esac; done\n[ \"$FAIL\" != mvn ]\n"
	fakeJavac = "#!/bin/sh\necho javac >>\"$CALLS\"\n[ \"$FAIL\" != javac ]\n"
)

func TestFetchRegistries(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("fetch-registries")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "envoy-tools", "fetch-registries")
	script(t, program, string(text))
	for _, tool := range []string{"cat", "dirname", "flock", "mkdir", "mktemp", "mv", "rm", "sh", "sha256sum"} {
		linkTool(t, dir, tool)
	}
	for name, content := range map[string]string{"go": fakeGo, "mvn": fakeMvn, "javac": fakeJavac} {
		script(t, filepath.Join(dir, "path", name), content)
	}
	sources := filepath.Join(dir, "e2e", "registries")
	for _, name := range []string{"consul/go.mod", "nomad/go.mod", "eureka/pom.xml", "eureka/Eureka.java"} {
		script(t, filepath.Join(sources, name), name)
	}
	calls := filepath.Join(dir, "calls")
	jar := filepath.Join(dir, "bin", "registries", "eureka", "a.jar")
	for _, tt := range []struct {
		name   string
		before func()
		args   []string
		fail   string // the program that fails
		calls  string
		stderr string
		fails  bool
		jar    bool // whether the jars are there afterwards
	}{
		{"another name", nil, []string{"consul", "zookeeper"}, "", "", "zookeeper is no registry: want", true, false},
		{"no module", nil, []string{"consul"}, "go", "go", "go could not fetch or build Consul", true, false},
		{"no module of Nomad", nil, []string{"nomad"}, "go", "go", "go could not fetch or build Nomad", true, false},
		{"no jars", nil, []string{"eureka"}, "mvn", "mvn", "mvn could not download Eureka", true, false},
		{"no compiler", nil, []string{"eureka"}, "javac", "mvn javac", "javac could not compile", true, false},
		{"both", nil, []string{"consul", "eureka"}, "", "go mvn javac", "downloading Eureka", false, true},
		{"again: go sees for itself, and the jars are there", nil, []string{"consul", "eureka"}, "", "go", "building Consul", false, true},
		{"another version", func() { script(t, filepath.Join(sources, "eureka/pom.xml"), "new") }, []string{"eureka"}, "", "mvn javac", "downloading", false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.RemoveAll(calls); err != nil {
				t.Fatal(err)
			}
			if tt.before != nil {
				tt.before()
			}
			var stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), program, tt.args...)
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "path"), "CALLS=" + calls, "FAIL=" + tt.fail}
			cmd.Stderr = &stderr
			if err := cmd.Run(); (err != nil) != tt.fails || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("error %v, want one: %t, and %q; stderr:\n%s", err, tt.fails, tt.stderr, &stderr)
			}
			called, _ := os.ReadFile(calls)
			if got := strings.Join(strings.Fields(string(called)), " "); got != tt.calls {
				t.Errorf("called were %q, want %q", got, tt.calls)
			}
			if _, err := os.Stat(jar); (err == nil) != tt.jar {
				t.Errorf("the jars are there: %t, want %t", err == nil, tt.jar)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "bin", ".*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
