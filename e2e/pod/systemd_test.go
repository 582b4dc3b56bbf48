//go:build pod

package pod

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// systemd takes the units without a word, and finds little in them that it would close.
func TestUnits(t *testing.T) {
	needs(t, "systemd-analyze", "unshare", "mount")
	programs := t.TempDir()
	for name, path := range map[string]string{
		"agent": lab.Program("agent"), "discovery": lab.Program("discovery"), "pod-init": lab.Path("envoy-tools", "pod-init"),
	} {
		check(t, os.Symlink(path, filepath.Join(programs, name)))
	}
	units, err := filepath.Glob(lab.Path("deploy", "systemd", "*.service"))
	check(t, err)
	if len(units) != 3 {
		t.Fatalf("units are %v, want three", units)
	}
	// The units name programs of /usr/local/bin: in a mount namespace of the test's own these are there.
	dropIns := t.TempDir()
	for _, unit := range units {
		data, err := os.ReadFile(unit)
		check(t, err)
		check(t, os.WriteFile(filepath.Join(dropIns, filepath.Base(unit)), data, 0o644))
	}
	example, err := os.ReadFile(lab.Path("deploy", "systemd", "pilotlight-agent.service.d",
		"tproxy.conf.example"))
	check(t, err)
	check(t, os.Mkdir(filepath.Join(dropIns, "pilotlight-agent.service.d"), 0o755))
	check(t, os.WriteFile(filepath.Join(dropIns, "pilotlight-agent.service.d", "tproxy.conf"), example, 0o644))
	analyze := func(argv ...string) string {
		t.Helper()
		script := `mount --bind "$1" /usr/local/bin; shift; exec /usr/bin/systemd-analyze "$@"`
		output, err := exec.Command("unshare", append([]string{"--mount", "sh", "-ec", script, "sh", programs},
			argv...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("systemd-analyze %q: %v:\n%s", argv, err, output)
		}
		return string(output)
	}
	for _, dir := range []string{filepath.Dir(units[0]), dropIns} {
		for _, unit := range units {
			unit = filepath.Join(dir, filepath.Base(unit))
			if output := analyze("verify", "--man=no", unit); output != "" {
				t.Errorf("systemd says of %s:\n%s", unit, output)
			}
		}
	}
	for unit, limit := range map[string]float64{
		"pilotlight-agent": 2, "pilotlight-discovery": 2,
		"pilotlight-redirect": 3,
	} {
		output := analyze("security", "--offline=yes", lab.Path("deploy", "systemd", unit+".service"))
		found := regexp.MustCompile(`exposure level for \S+: ([0-9.]+)`).FindStringSubmatch(output)
		if len(found) != 2 {
			t.Fatalf("no exposure level of %s:\n%s", unit, output)
		}
		if level, err := strconv.ParseFloat(found[1], 64); err != nil || level > limit {
			t.Errorf("%s: exposure level %s, want at most %g:\n%s", unit, found[1], limit, strings.TrimSpace(output))
		}
	}
}
