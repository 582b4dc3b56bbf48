package inject

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// Injection and the validation of objects know the same fields.
func TestInjectionAndValidationAgree(t *testing.T) {
	served := map[string]bool{}
	for _, s := range config.SupportOf("MeshConfig") {
		if path, found := strings.CutPrefix(s.Path, "defaultConfig."); found && s.Served {
			served[path] = true
		}
	}
	elsewhere := []string{"tracing.sampling"}     // read by discovery itself
	removed := []string{"parentShutdownDuration"} // from Istio's API
	for _, path := range names() {
		covered := slices.ContainsFunc(slices.Collect(maps.Keys(served)), func(s string) bool { return s == path || strings.HasPrefix(s, path+".") })
		if without := slices.Contains(fieldsWithoutEffect, path); covered == without && !slices.Contains(elsewhere, path) && !slices.Contains(removed, path) {
			t.Errorf("%s: it has an effect in support.txt: %t; in injection: %t", path, covered, !without)
		}
	}
}
