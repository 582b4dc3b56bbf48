package envoytools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeMake is a make that fails for the targets in $RED, as go test does or without a word.
const fakeMake = `#!/bin/sh
for target; do case $target in --*) ;; *=*) ;; *)
	made=$target
	echo "$target" >>"$CALLS"
	echo "output of $target"
	case " $RED " in
	*" $target:test "*) printf -- 'a_test.go:1: wrong\n    --- FAIL: TestA/b (0.10s)\n--- FAIL: TestA (0.20s)\nFAIL\n'; exit 2 ;;
	*" $target "*) exit 2 ;;
	esac ;;
esac; done
echo "ok  	example/$made	1.0s"
`

func TestCI(t *testing.T) {
	for _, tt := range []struct {
		name, red string
		want      []string // parts of the report
	}{
		{"green", "", nil},
		{"a failed test", "e2e-kube:test", []string{"--- e2e-kube, in part", "a_test.go:1: wrong\n", "FAILED: TestA/b TestA\n"}},
		{"failed without a test, twice", "lint e2e-node", []string{"lint", "FAILED: output of lint\n", "FAILED: output of e2e-node\n"}},
		{"parts and the last one", "parts soak", []string{"FAILED: output of parts\n", "FAILED: output of soak\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			text, err := os.ReadFile("../.ci/run")
			if err != nil {
				t.Fatal(err)
			}
			run, calls := filepath.Join(dir, ".ci", "run"), filepath.Join(dir, "calls")
			script(t, run, string(text))
			script(t, filepath.Join(dir, "envoy-tools", "packages"), "#!/bin/sh\n")
			script(t, filepath.Join(dir, "path", "make"), fakeMake)
			cmd := exec.CommandContext(t.Context(), "bash", run)
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "path") + ":" + os.Getenv("PATH"), "CALLS=" + calls, "RED=" + tt.red}
			out, err := cmd.CombinedOutput()
			if (err != nil) != (tt.red != "") {
				t.Errorf("error %v, and the red targets are %q:\n%s", err, tt.red, out)
			}
			called, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			targets := strings.Fields(string(called))
			if len(targets) != 17 || targets[0] != "setup" || targets[1] != "build" || targets[16] != "soak" {
				t.Errorf("made were %q, want setup, build, each of 14 targets, and soak", targets)
			}
			_, report, _ := strings.Cut(string(out), "output of soak\n")
			lines := strings.Split(strings.TrimSpace(report), "\n")
			if got, want := strings.Count(report, " s of processors"), 15; got != want {
				t.Errorf("%d lines of targets, want %d:\n%s", got, want, report)
			}
			if last := lines[len(lines)-1]; !strings.Contains(tt.red, "soak") && last != "ok  	example/soak	1.0s" {
				t.Errorf("the last line is %q, want that of go test for soak", last)
			}
			for _, want := range tt.want {
				if !strings.Contains(report, want) {
					t.Errorf("the report does not contain %q:\n%s", want, report)
				}
			}
			if strings.Count(report, "FAILED") != len(strings.Fields(tt.red)) {
				t.Errorf("want %q as FAILED:\n%s", tt.red, report)
			}
		})
	}
}
