package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A MeshConfig holds for every proxy: its access log is written, what it refuses is refused. A broken one changes nothing.
func TestMeshConfig(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	write := func(text string) {
		if err := os.WriteFile(path+"~", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
	}
	const mesh = `
outboundTrafficPolicy: {mode: REGISTRY_ONLY}
accessLogFile: /dev/stdout
accessLogFormat: "logged %REQ(:PATH)% %RESPONSE_CODE%\n"
`
	write(mesh)
	w := newWorld(t, "--meshConfig", path)
	w.service("app.test", w.backend("app"))
	p := w.sidecar("client", "")
	p.until(from("app"), "http://app.test/logged")
	p.until(status(502), "http://unknown.test/")
	w.check(lab.Eventually(stopLimit, func() error {
		if !strings.Contains(p.Log(), "logged /logged 200") {
			return fmt.Errorf("no access log in:\n%s", p.Log())
		}
		return nil
	}))
	write("accessLogFile: [")
	w.check(lab.Eventually(stopLimit, func() error {
		if !strings.Contains(w.discovery.Log(), "malformed record skipped") {
			return fmt.Errorf("discovery says nothing of the broken file")
		}
		return nil
	}))
	p.until(status(502), "http://unknown.test/")
	write(strings.Replace(mesh, "REGISTRY_ONLY", "ALLOW_ANY", 1))
	outside := w.backend("outside")
	p.until(from("outside"), fmt.Sprintf("http://%s:%d/", outside.ip, outside.port))
}
