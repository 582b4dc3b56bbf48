package proxy

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/hashicorp/go-multierror"

	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/internal/safefile"
	"github.com/pilotlight/pilotlight/node"
)

// sidecar returns the configuration of a sidecar in Kubernetes, with its bootstrap in dir.
func sidecar(dir string, environ ...string) Config {
	return Config{
		Environ:     append([]string{"POD_NAME=reviews-1", "POD_NAMESPACE=shop"}, environ...),
		Identity:    identity.Given{Role: node.Sidecar, Registry: identity.Kubernetes},
		TrustDomain: "mesh.test",
		Dir:         Input{Name: "--configPath", Path: dir},
		Params: bootstrap.Params{
			Cluster: "reviews", StatusPort: 15020, AdminPort: 15000,
			Discovery: bootstrap.Discovery{Address: bootstrap.Address{Host: "pilot.control", Port: 15010}, ConnectTimeout: 1e9, Variant: bootstrap.Delta},
		},
		Ports: status.Ports{Status: status.OwnPort{Number: 15020}},
		Log:   slog.New(slog.DiscardHandler),
	}
}

var host = Host{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Processors: 4, Files: fstest.MapFS{}}

func TestResolve(t *testing.T) {
	config := sidecar("/run/proxy")
	config.Params.Discovery.TLS = &bootstrap.TLS{Chain: "/c", Key: "/k", Roots: "/r"}
	p, err := Resolve(config, host)
	if err != nil {
		t.Fatal(err)
	}
	text, format, err := p.Bootstrap()
	if err != nil || format != "json" {
		t.Fatal(format, err)
	}
	for _, want := range []string{
		"sidecar~10.0.0.1~reviews-1.shop~shop.svc.cluster.local", "spiffe://mesh.test/ns/control/sa/istio-pilot-service-account",
		"/run/proxy/sds-TOKEN.sock", `"MESH_ID": "mesh.test"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("want %s in\n%s", want, text)
		}
	}
	if config.Params.Discovery.TLS.SAN != "" || config.Envoy.Concurrency != 0 {
		t.Errorf("what it was given has changed: %+v", config)
	}
	var names []string
	for _, d := range p.Derived() {
		names = append(names, d.Setting)
	}
	if got := strings.Join(names, " "); got != "concurrency ip id domain" {
		t.Errorf("worked out %q", got)
	}
}

// All faults are reported together, each under the name of its flag or variable.
func TestResolveTellsEveryFault(t *testing.T) {
	config := sidecar("/run/proxy", "ISTIO_METAJSON_LABELS=x", "ISTIO_KUBE_APP_PROBERS=x", "POD_NAME=")
	config.Labels = Input{Name: "PILOTLIGHT_LABELS_FILE", Path: "/labels", Given: true}
	config.Annotations = Input{Name: "--annotationsFile", Path: "/annotations"}
	p, err := Resolve(config, Host{Addresses: host.Addresses, Files: fstest.MapFS{"annotations": {Data: []byte("x")}}})
	var faults *multierror.Error
	if !errors.As(err, &faults) || len(faults.Errors) != 5 {
		t.Fatalf("got %v, want five faults", err)
	}
	for i, want := range []string{"--id: not set", "PILOTLIGHT_LABELS_FILE: ", "--annotationsFile /annotations: line 1", "ISTIO_METAJSON_LABELS", "ISTIO_KUBE_APP_PROBERS"} {
		if !strings.Contains(faults.Errors[i].Error(), want) {
			t.Errorf("fault %d: %v, want %s", i, faults.Errors[i], want)
		}
	}
	if len(p.Derived()) == 0 {
		t.Error("nothing is worked out beside the faults")
	}
}

func TestSource(t *testing.T) {
	dir := t.TempDir()
	input := func(name, text string) Input {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Input{Name: "--" + name, Path: path, Given: true}
	}
	none := Input{Name: "--none", Path: filepath.Join(dir, "none"), Given: true}
	for _, test := range []struct {
		name   string
		source Source
		want   string // in the text, or the fault after "!"
		format string
	}{
		{"the role's own", Source{}, `"cluster": "reviews"`, "json"},
		{"custom", Source{Custom: input("custom.yaml", "a: b")}, "a: b", "yaml"},
		{"template", Source{Template: input("template", `{"mine": {{json .Discovery.Host}}}`)}, `"mine": "pilot.control"`, "json"},
		{"a YAML override", Source{Override: input("o.yaml", "stats_flush_interval: 7s")}, `"stats_flush_interval": "7s"`, "json"},
		{"a template with a fault", Source{Template: input("bad", `{{.Nope}}`)}, "!--bad " + filepath.Join(dir, "bad"), ""},
		{"an override with a fault", Source{Override: input("bad.json", `{"a"`)}, "!--bad.json " + filepath.Join(dir, "bad.json"), ""},
		{"a file that is missing", Source{Custom: none}, "!--none: open " + none.Path, ""},
	} {
		config := sidecar(dir)
		config.Source = test.source
		p, err := Resolve(config, host)
		if err != nil {
			t.Fatal(test.name, err)
		}
		text, format, err := p.Bootstrap()
		if fault, ok := strings.CutPrefix(test.want, "!"); ok {
			if err == nil || !strings.HasPrefix(err.Error(), fault) {
				t.Errorf("%s: %v, want a fault that begins with %s", test.name, err, fault)
			}
		} else if err != nil || format != test.format || !strings.Contains(string(text), test.want) {
			t.Errorf("%s: %s, %v; want %s in\n%s", test.name, format, err, test.want, text)
		}
	}
}

// Diff compares with the newest epoch of a directory, without the admin.
func TestDiff(t *testing.T) {
	dir := t.TempDir()
	p, err := Resolve(sidecar(dir), host)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Diff(""); err == nil || !strings.Contains(err.Error(), "no Envoy runs there") {
		t.Errorf("an empty directory: %v", err)
	}
	text, _, err := p.Bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	running := strings.Replace(string(text), "{", `{"admin": {"x": 1},`, 1)
	for name, text := range map[string]string{"envoy-rev2.json": "{}", "envoy-rev10.json": running} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if lines, err := p.Diff(""); err != nil || lines != "" {
		t.Errorf("the same bootstrap: %v\n%s", err, lines)
	}
	if lines, err := p.Diff(filepath.Join(dir, "envoy-rev2.json")); err != nil || !strings.Contains(lines, "+") {
		t.Errorf("another bootstrap: %v, %q", err, lines)
	}
}

// A file that a bootstrap is made of, or of labels, never keeps the agent waiting.
func TestInputsAreRegularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, zero := filepath.Join(dir, "pipe"), filepath.Join(dir, "zero")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("/dev/zero", zero)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe: "--x: read " + pipe + ": is a pipe, want a file", zero: "--x: read " + zero + ": is a device, want a file",
	} {
		input := Input{Name: "--x", Path: path, Given: true}
		if _, err := input.read(); err == nil || err.Error() != want {
			t.Errorf("read: %v, want %s", err, want)
		}
		if _, err := input.readDownward(safefile.FS("/")); err == nil || err.Error() != want {
			t.Errorf("read labels: %v, want %s", err, want)
		}
	}
}
