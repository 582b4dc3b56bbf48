package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// tagged builds the agent with a further build tag, and returns its path, which ends with /agent.
func tagged(t *testing.T, tag string) string {
	t.Helper()
	dir := t.TempDir()
	if err := lab.BuildTagged(dir, tag, "./cmd/agent"); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "agent")
}

// beside starts an agent from its own directory, and returns the path of its binary, and of another one.
func (s *standalone) beside(binary string) (one, other string) {
	s.t.Helper()
	s.bin = s.t.TempDir()
	one, other = filepath.Join(s.bin, "agent"), filepath.Join(s.bin, "other")
	s.must(os.Link(binary, one))
	s.must(os.Link(binary, other))
	s.launch()
	s.must(s.awaitRevision(1, startLimit))
	s.must(s.awaitAlone(lab.StopLimit))
	return one, other
}

// A newer image that makes another bootstrap of the same settings takes over first, and hands over then: no request fails. Envoy's stream of
// secrets comes back: it gets the next certificate.
func TestUpgradeToAnotherBootstrap(t *testing.T) {
	t.Parallel()
	template, err := os.ReadFile(lab.Path("templates", "parts.json.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	changed, overlay, newer := filepath.Join(dir, "parts.json.tmpl"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "agent")
	for path, text := range map[string]string{
		changed: strings.Replace(string(template), `"re2.max_program_size.error_level": 32768`, `"re2.max_program_size.error_level": 32769`, 1),
		overlay: fmt.Sprintf(`{"Replace": {%q: %q}}`, lab.Path("templates", "parts.json.tmpl"), changed),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-overlay", overlay, "-o", newer, "../../cmd/agent")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	p := startCertified(t, 1001)
	p.clusters(p.good)
	p.listeners(withAgentSecrets(tcpListener("l", p.inbound[0], "good")), tcpListener("plain", p.inbound[1], "good"))
	p.presents(1001)
	p.serves(p.inbound[1])
	load := lab.StartSlowLoad(p.inbound[1], "http://"+p.inbound[1]+"/", 0, 6, 20*time.Millisecond)
	first, err := p.Envoy()
	p.must(err)
	p.upgrade(lab.Program("agent"), 1)
	p.mount(1002)
	p.presents(1002)
	if now, err := p.Envoy(); err != nil || now != first {
		t.Errorf("after an upgrade and another certificate Envoy is process %d, was %d: %v", now, first, err)
	}
	p.upgrade(newer, 2)
	p.must(lab.Eventually(handoverLimit, func() error {
		now, err := p.Envoy()
		if err == nil && now == first {
			err = fmt.Errorf("process %d runs still", now)
		}
		if err != nil {
			return err
		}
		text, err := lab.Get("http://" + p.Admin + "/runtime")
		if err == nil && !strings.Contains(text, "32769") {
			err = fmt.Errorf("the runtime of Envoy: %s", text)
		}
		return err
	}))
	p.presents(1002)
	lab.Unharmed(t, load)
	p.must(p.AwaitLog(`msg="handed over to a newcomer"`))
	log := p.Log()
	adopted, handed := strings.LastIndex(log, `msg="another image of the agent goes on"`), strings.Index(log, `msg="handed over to a newcomer"`)
	if adopted < 0 || handed < adopted || strings.Contains(log, "Envoy ended unasked") {
		t.Errorf("the newer image took over at byte %d of the log, and handed over at byte %d:\n%s", adopted, handed, log)
	}
}

// upgrade has the agent replaced by a binary, for the nth time.
func (p *certified) upgrade(binary string, n int) {
	p.t.Helper()
	port := p.status[strings.LastIndexByte(p.status, ':')+1:]
	out, err := exec.Command(lab.Program("agent"), "upgrade", "--configPath", p.ConfigPath, "--statusPort", port, "--binary", binary).CombinedOutput()
	if err != nil {
		p.t.Fatalf("upgrade: %v: %s", err, out)
	}
	text, err := lab.Get("http://" + p.status + "/status")
	if err != nil || !strings.Contains(text, fmt.Sprintf(`"count": %d`, n)) {
		p.t.Fatalf("no upgrade %d: %v: %s", n, err, text)
	}
}
