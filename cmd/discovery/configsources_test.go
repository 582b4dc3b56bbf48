package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// MeshConfig names another discovery and a further directory as sources. When it no longer names them, their objects
// are removed. A source that cannot be read delays no other source, and is reported by name.
func TestServeConfigSources(t *testing.T) {
	objects := func(name string) string {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.yaml"), fmt.Sprintf("{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: %s}, spec: {hosts: [%s.test], "+
			"resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.0.0.1}]}}", name, name))
		return dir
	}
	far := startServe(t, "--configDir", objects("far"))
	far.await(t, http.StatusOK)

	mesh, extra := filepath.Join(t.TempDir(), "mesh.yaml"), objects("further")
	write(t, mesh, fmt.Sprintf("configSources: [{address: 'xds://%s'}, {address: 'fs://%s'}, {address: 'k8s://elsewhere'}]", far.grpc, extra))
	s := startServe(t, "--configDir", objects("own"), "--meshConfig", mesh, "--registrySyncTimeout", "2s")
	s.await(t, http.StatusOK)
	shows := func(path string, ok func(page string) bool) {
		t.Helper()
		s.awaitPage(t, path, ok)
	}
	shows("/debug/configz", func(page string) bool {
		return strings.Contains(page, "far.test") && strings.Contains(page, "further.test") && strings.Contains(page, "own.test")
	})
	shows("/ready?verbose", func(page string) bool {
		return strings.Contains(page, "source k8s://elsewhere") && strings.Contains(page, "want k8s:// for the one of --kubeconfig")
	})
	metrics := func() string { return s.get(t, s.stats, "/metrics") }
	for _, source := range []string{"config", "fs://" + extra} {
		if want := fmt.Sprintf(`pilotlight_config_objects{kind="ServiceEntry",source=%q,state="served"} 1`, source); !strings.Contains(metrics(), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	write(t, mesh, "configSources: []")
	shows("/debug/configz", func(page string) bool {
		return !strings.Contains(page, "far.test") && !strings.Contains(page, "further.test") && strings.Contains(page, "own.test")
	})
	shows("/ready?verbose", func(page string) bool { return page == "ready\n" })
	if page := metrics(); strings.Contains(page, extra) {
		t.Errorf("a store that was removed is counted: %s", page)
	}
	s.stop(t)
	far.stop(t)
}

// An unavailable registry that is optional delays no other one, and is reported by name.
func TestServeWithARegistryThatIsAway(t *testing.T) {
	away := []string{"--registries", "CloudFoundry,Mock", "--natsURL", "nats://127.0.0.1:1", "--registrySyncTimeout", "300ms"}
	required := startServe(t, away...)
	required.awaitText(t, "/ready?verbose", "source CloudFoundry: it has not synced within its deadline, and discovery is not ready without it")
	required.await(t, http.StatusServiceUnavailable)
	required.stop(t)
	s := startServe(t, append(away, "--optionalSources", "CloudFoundry")...)
	s.await(t, http.StatusOK)
	for path, want := range map[string]string{
		"/v1/registration": "hello.default.svc.cluster.local",
		"/ready?verbose":   "source CloudFoundry: it has not synced within its deadline",
		"/debug/sources":   "connect to NATS at nats://127.0.0.1:1",
	} {
		if page := s.get(t, s.web, path); !strings.Contains(page, want) {
			t.Errorf("%s is %q, want %q in it", path, page, want)
		}
	}
	s.stop(t)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+"~", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+"~", path); err != nil {
		t.Fatal(err)
	}
}
