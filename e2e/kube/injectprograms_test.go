//go:build kube

package kube

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// pod-init takes the arguments of every golden file, and agent wait those that hold a program back.
func TestProgramsTakeInjectedArguments(t *testing.T) {
	h := hand{t: t}
	l := lab.New(t.TempDir())
	paths, err := filepath.Glob(lab.Path("discovery", "inject", "testdata", "*.golden"))
	check(t, err)
	inits, waits := 0, 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(t, err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			for _, c := range containersOf(h.parse(document).Object) {
				name := filepath.Base(path)
				switch c["name"] {
				case "istio-init":
					inits++
					env, argv := kubeletStarts(c)
					argv = append([]string{lab.Path("envoy-tools", "pod-init"), "apply", "-n", "--backend", "nft"}, argv...)
					p, err := lab.Start(lab.Spec{Name: "pod-init-" + name, Dir: l.Dir, Env: env, Argv: argv})
					check(t, err)
					if code, err := p.Wait(time.Minute); err != nil || code != 0 || !strings.Contains(p.Log(), "15006") || strings.Contains(p.Log(), "nothing is done") {
						t.Errorf("%s: %q ends with %d, %v: %s", name, argv, code, err, p.Log())
					}
				case "istio-proxy":
					command, found, _ := unstructured.NestedStringSlice(c, "lifecycle", "postStart", "exec", "command")
					if !found {
						continue
					}
					waits++
					if filepath.Base(command[0]) != "agent" {
						t.Fatalf("%s: the hook is %q", name, command)
					}
					ready, err := net.Listen("tcp", "127.0.0.1:0") // that nothing answers at
					check(t, err)
					argv := append([]string{filepath.Join(l.Bin, "agent")}, command[1:]...)
					argv = append(argv, "--timeout", "100ms", "--url", "http://"+ready.Addr().String()) // the last one counts
					p, err := lab.Start(lab.Spec{Name: "wait-" + name, Dir: l.Dir, Argv: argv})
					check(t, err)
					if code, err := p.Wait(time.Minute); err != nil || code != 1 {
						t.Errorf("%s: %q ends with %d, want 1, not ready: %v: %s", name, argv, code, err, p.Log())
					}
					ready.Close()
				}
			}
		}
	}
	if inits < 6 || waits < 1 {
		t.Errorf("%d init containers and %d hooks were tried", inits, waits)
	}
}

// containersOf finds the containers of anything that has a Pod's specification in it.
func containersOf(v any) (out []map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if list, ok := value.([]any); ok && (key == "containers" || key == "initContainers") {
				for _, c := range list {
					out = append(out, c.(map[string]any))
				}
				continue
			}
			out = append(out, containersOf(value)...)
		}
	case []any:
		for _, item := range v {
			out = append(out, containersOf(item)...)
		}
	}
	return out
}
