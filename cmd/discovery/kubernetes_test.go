package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A replica that cannot answer the API server's webhooks is not ready, so that none is led to it; where this lasts longer than the
// deadline it serves proxies, and says what is missing.
func TestServeAwaitsItsWebhooks(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--configDir", t.TempDir(), "--kubeconfig", kubeconfig, "--webhookAddr", "127.0.0.1:0", "--webhookService", "mesh/discovery",
		"--mutatingWebhookConfiguration", "ours", "--injectConfigMap", "mesh/injection",
	}
	for timeout, want := range map[string]int{"0s": http.StatusServiceUnavailable, "1h": http.StatusServiceUnavailable, "300ms": http.StatusOK} {
		s := startServe(t, append(args, "--registrySyncTimeout", timeout)...)
		s.awaitText(t, "/ready?verbose", map[int]string{
			http.StatusServiceUnavailable: "not ready: there is no certificate of webhooks yet, there is no configuration of injection yet\n", http.StatusOK: "ready\n",
		}[want])
		s.awaitText(t, "/ready?verbose", "\nwebhooks: there is no certificate yet: ") // with the reason
		if got := s.get(t, s.web, "/ready?verbose"); !strings.Contains(got, "\ninjection: there is no configuration yet: no Pod can be injected\n") {
			t.Errorf("/ready?verbose is %q", got)
		}
		for _, line := range []string{"pilotlight_webhook_certificate_kept 0\n", "pilotlight_injection_config_refused 0\n"} {
			if got := s.get(t, s.stats, "/metrics"); !strings.Contains(got, line) {
				t.Errorf("/metrics has no line %s", line)
			}
		}
		s.stop(t)
	}
}
