package bootstrap

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// TestEnvoyTakesEveryGolden asks the real Envoy, which shall not even warn. The /etc of the files is a directory of the
// test.
func TestEnvoyTakesEveryGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/TestRender*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files: %v, %v; want some", files, err)
	}
	dir := t.TempDir()
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
