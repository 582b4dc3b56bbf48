package bootstrap

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// TestEnvoyTakesEveryGolden asks the real Envoy.
func TestEnvoyTakesEveryGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files: %v, %v; want some", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := lab.Validate(data); err != nil {
				t.Error(err)
			}
		})
	}
}
