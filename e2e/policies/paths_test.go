package policies

import (
	"os"
	"path/filepath"
	"testing"
)

// MeshConfig's pathNormalization decides which spellings of a path a policy denies; explain agrees.
func TestPathNormalization(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "mesh.yaml")
	m := &mesh{}
	set := func(mode string) {
		text := "pathNormalization: {normalization: " + mode + "}\n"
		if err := os.WriteFile(settings+"~", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(settings+"~", settings); err != nil {
			t.Fatal(err)
		}
	}
	set("NONE")
	m = newMesh(t, "--meshConfig", settings)
	m.policy("admin", "{action: DENY, rules: [{to: [{operation: {paths: [/admin, /admin/*], methods: [GET]}}]}]}")
	m.GatewayEnvoy("gw")
	const plain, dots, double, escaped, back = "/admin/x", "/x/../%61dmin/x", "//admin//x?a=//b", "/%2Fadmin%2fx", "/x%5C..%5cadmin/x"
	m.ask("the policy", 403, plain)
	for _, mode := range []struct {
		name           string
		denied, passed []string
	}{
		{"NONE", []string{plain}, []string{dots, double, escaped, back}},
		{"DECODE_AND_MERGE_SLASHES", []string{plain, dots, double, escaped, back, "/x/..//admin", "//admin"}, []string{"/x", "/x//y"}},
		{"MERGE_SLASHES", []string{plain, dots, double, "/x/..//admin"}, []string{back, "/x"}},
		{"BASE", []string{plain, dots}, []string{double, escaped, back}},
		{"DEFAULT", []string{plain, dots}, []string{double, escaped, back}},
	} {
		set(mode.name)
		for _, path := range mode.passed {
			m.ask(mode.name, 200, path)
		}
		for _, path := range mode.denied {
			m.ask(mode.name, 403, path)
			m.explains(mode.name, 403, path)
		}
		for _, path := range mode.passed {
			m.explains(mode.name, 200, path)
		}
	}
}
