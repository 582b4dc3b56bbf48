package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/internal/clidoc"
	"github.com/pilotlight/pilotlight/internal/golden"
)

func TestDocs(t *testing.T) { clidoc.Check(t, newRoot(), "../../docs/cli") }

// TestSettingsDocument compares docs/cli/discovery_settings.md with the table.
func TestSettingsDocument(t *testing.T) {
	golden.Document(t, "../../docs/cli/discovery_settings.md", `# Settings of discovery serve

Made from the table that discovery parses by; `+"`make golden`"+` rewrites it.

Each setting is a flag (`+"`--configDir mesh/`"+`), an environment variable, and a key of the YAML file that
`+"`--config`"+` or `+"`PILOTLIGHT_CONFIG`"+` names. A flag beats a variable, a variable the file, the file the default; an empty
variable counts as not set. `+"`discovery serve --print-config`"+` shows each value and where it came from.
`+clidoc.Settings(newSettings().table()))
}

// said runs a command, and returns its exit code and what it printed.
func said(args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(context.Background(), args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// A mistyped command is answered by the one that is meant.
func TestMistypedCommand(t *testing.T) {
	for args, want := range map[string]string{
		"validat mesh": "did you mean validate?", "sevre": "did you mean serve?", "frobnicate": "want one of apply, ca, completion, config, delete, explain, get,",
	} {
		if code, _, stderr := said(strings.Fields(args)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d, %s", args, code, stderr)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, script, _ := said("completion", shell); code != 0 || !strings.Contains(script, "discovery") {
			t.Errorf("%s: %d, %.100s", shell, code, script)
		}
	}
	if code, _, _ := said("completion", "tcsh"); code != 2 {
		t.Errorf("a shell that there is not: %d", code)
	}
	for args, want := range map[string]string{
		"serve --registries ": "Kubernetes", "serve --logLevel ": "debug", "get ": "virtualservices", "get vs -o ": "yaml", "validate -o ": "json", "val": "validate",
	} {
		words := append([]string{"__complete"}, strings.Split(args, " ")...)
		if _, out, _ := said(words...); !strings.Contains(out, want) {
			t.Errorf("%s: got %s, want %s", args, out, want)
		}
	}
}

// Every setting of serve is under the heading that its table has, once.
func TestHelpInGroups(t *testing.T) {
	_, help, _ := said("serve", "--help")
	for _, s := range newSettings().table().Settings {
		heading, flag := strings.Index(help, "\n"+s.Group+":\n"), strings.Index(help, "      --"+s.Name+" ")
		if heading < 0 || flag < heading || strings.Count(help, "      --"+s.Name+" ") != 1 {
			t.Errorf("--%s is not once under %q", s.Name, s.Group)
		}
	}
}

// Files of a mesh whose Pods and other Services are in a cluster only: they are not missing. What the files alone show
// is wrong still.
func TestValidateBesideARegistry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	const mesh = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec:
  hosts: [web]
  gateways: [front]
  http: [{route: [{destination: {host: elsewhere}}]}]
`
	if err := os.WriteFile(path, []byte(mesh), 0o600); err != nil {
		t.Fatal(err)
	}
	_, alone, _ := said("validate", path)
	for _, want := range []string{"no endpoint of web.shop", "elsewhere", "front"} {
		if !strings.Contains(alone, want) {
			t.Errorf("nothing is said of %q:\n%s", want, alone)
		}
	}
	code, beside, stderr := said("validate", "--registries", "Kubernetes", path)
	if code != 0 || strings.Contains(beside, "no endpoint") || strings.Contains(beside, "elsewhere") || !strings.Contains(beside, "front") {
		t.Errorf("%d:\n%s%s", code, beside, stderr)
	}
	if want := "not judged, for Kubernetes may have them: host elsewhere.shop.svc.cluster.local, workloads of Deployment shop/web\n"; !strings.Contains(stderr, want) {
		t.Errorf("%s, want %s", stderr, want)
	}
	if code, _, stderr := said("validate", "--registries", "Kubernets", path); code != 2 || !strings.Contains(stderr, "want one or more of") {
		t.Errorf("a registry that there is not: %d, %s", code, stderr)
	}
}
