package traffic

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/e2e/truth"
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
accessLogFormat: "logged %REQ(:PATH)% %RESPONSE_CODE%\n` + truth.Line + `"
`
	write(mesh)
	w := newWorld(t, "--meshConfig", path)
	w.Service("app.test", w.Backend("app"))
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.From("app"), "http://app.test/logged")
	p.Until(lab.Status(502), "http://unknown.test/")
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		if !strings.Contains(p.Log(), "logged /logged 200") {
			return fmt.Errorf("no access log in:\n%s", p.Log())
		}
		return nil
	}))
	w.replay(p)
	write("accessLogFile: [")
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		if !strings.Contains(w.Discovery.Log(), "malformed record skipped") {
			return fmt.Errorf("discovery says nothing of the broken file")
		}
		return nil
	}))
	p.Until(lab.Status(502), "http://unknown.test/")
	write(strings.Replace(mesh, "REGISTRY_ONLY", "ALLOW_ANY", 1))
	outside := w.Backend("outside")
	p.Until(lab.From("outside"), fmt.Sprintf("http://%s:%d/", outside.IP, outside.Port))
	w.replay(p)
}
