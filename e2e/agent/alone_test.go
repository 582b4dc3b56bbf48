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

// A custom bootstrap needs nothing that its proxy does not use: no registry, name, address, certificate or discovery. Envoy's
// access log shows a request within moments.
func TestACustomBootstrapAlone(t *testing.T) {
	t.Parallel()
	ports := make([]int, 3)
	for i := range ports {
		port, err := lab.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = port
	}
	dir, program := lab.ShortDir(t), startProgram(t)
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	text := strings.Replace(lab.StaticBootstrap(address, program.Listener.Addr().String(), 1),
		`"stat_prefix": "inbound",`, `"stat_prefix": "inbound", "access_log": [{"name": "file", "typed_config": {
			"@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": "/dev/stdout",
			"log_format": {"text_format_source": {"inline_string": "asked %REQ(:PATH)%\n"}}}}],`, 1)
	config := filepath.Join(dir, "bootstrap.json")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	agent, err := lab.Start(lab.Spec{Name: "alone", Dir: dir, Argv: []string{
		lab.Program("agent"), "proxy", "--customConfigFile", config, "--configPath", filepath.Join(dir, "proxy"), "--binaryPath", lab.Envoy(),
		"--statusPort", fmt.Sprint(ports[1]), "--proxyAdminPort", fmt.Sprint(ports[2]),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if code := agent.Stop(lab.StopLimit); code != 0 || t.Failed() {
			t.Errorf("exit status %d:\n%s", code, agent.Log())
		}
	})
	if err := agent.AwaitHTTP(lab.StopLimit, fmt.Sprintf("http://127.0.0.1:%d/healthz/ready", ports[1])); err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Get("http://" + address + "/path"); err != nil {
		t.Error(err)
	}
	watch := lab.StartStopwatch()
	if err := lab.Eventually(lab.StopLimit, func() error {
		if !strings.Contains(agent.Log(), "asked /path") {
			return fmt.Errorf("the access log does not have the request")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	watch.Within(t, 4*time.Second, "the access log, which Envoy by itself writes every ten seconds,")
	for line := range strings.Lines(agent.Log()) {
		if strings.Contains(line, "istio-pilot") || strings.Contains(line, "certificates") || strings.Contains(line, "level=ERROR") {
			t.Errorf("the log has what the proxy does not need: %s", line)
		}
	}
}

// What a machine has for a mesh of its own changes nothing in a test: broken certificates, labels of a Pod and variables.
func TestTheMachineIsHidden(t *testing.T) {
	t.Parallel()
	lab.InMountNamespace(t, func(t *testing.T) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(lab.ReplaceEtc())
		for path, text := range map[string]string{
			"certs/cert-chain.pem": "rubbish", "certs/key.pem": "rubbish", "certs/root-cert.pem": "rubbish", "istio/pod/labels": "rubbish",
		} {
			path = filepath.Join("/etc", path)
			must(os.MkdirAll(filepath.Dir(path), 0o755))
			must(os.WriteFile(path, []byte(text), 0o644))
		}
		lab.ForgetVariables() // those of this package too: the tests begin as on the machine itself
		again := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^(TestACustomBootstrapAlone|TestBootstrapCommand)$", "-test.v")
		again.Env = append(os.Environ(), "PILOTLIGHT_CERT_DIR=/nowhere", "PILOTLIGHT_STATUS_PORT=rubbish", "ISTIO_BOOTSTRAP=/nowhere", "ISTIO_METAJSON_LABELS=rubbish")
		if out, err := again.CombinedOutput(); err != nil || strings.Count(string(out), "--- PASS: ") != 2 {
			t.Errorf("%v:\n%s", err, out)
		}
	})
}
