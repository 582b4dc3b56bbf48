package bootstrap

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// TestEnvoyTakesEveryGolden asks the real Envoy, which shall not even warn. What the files call /etc is made here.
func TestEnvoyTakesEveryGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/TestRender*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files: %v, %v; want some", files, err)
	}
	dir := etc(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel() // as many Envoys as processors
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			output, err := lab.Warnings(bytes.ReplaceAll(data, []byte("/etc/"), []byte(dir+"/etc/")))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(output) {
				// The one way by which listeners of discovery share a collector that is the proxy's own.
				if !strings.Contains(line, "deprecated option 'envoy.config.bootstrap.v3.Bootstrap.tracing'") {
					t.Errorf("Envoy warns: %s", line)
				}
			}
		})
	}
}

// etc makes the directories that golden files name: certificates, and the SDS files that name them.
func etc(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	authority, err := lab.NewAuthority("root")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := authority.Issue("sidecar", 1)
	if err != nil {
		t.Fatal(err)
	}
	p := sidecar()
	p.Discovery.TLS = mutualTLS()
	secrets, err := SecretFiles(p)
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{
		p.Discovery.TLS.Chain: identity.Chain, p.Discovery.TLS.Key: identity.Key, p.Discovery.TLS.Roots: identity.Roots,
		secrets[0].Path: bytes.ReplaceAll(secrets[0].Data, []byte("/etc/"), []byte(dir+"/etc/")),
		secrets[1].Path: bytes.ReplaceAll(secrets[1].Data, []byte("/etc/"), []byte(dir+"/etc/")),
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
