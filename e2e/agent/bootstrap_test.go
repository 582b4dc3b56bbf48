package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/node"
)

// params are those of a sidecar under interception NONE, whose outbound HTTP is at the port of its metadata.
func (w *world) params(name string) bootstrap.Params {
	w.T.Helper()
	discovery, err := bootstrap.ParseAddress(w.Discovery.GRPC)
	w.Check(err)
	return bootstrap.Params{
		Node:      node.ID{Role: node.Sidecar, IP: w.Address(), Name: name + ".default", Domain: "default.svc.cluster.local"},
		Cluster:   name,
		Discovery: bootstrap.Discovery{Address: discovery, ConnectTimeout: time.Second},
		Metadata: node.Metadata{
			Namespace: "default", InterceptionMode: node.None, HTTPProxyPort: lab.Port(w.T), Labels: map[string]string{"app": name},
		},
	}
}

// boot starts an Envoy on what is rendered, with overrides merged over it and an admin of its own, without waiting.
func (w *world) boot(p bootstrap.Params, overrides ...string) *lab.Proxy {
	w.T.Helper()
	admin := lab.Port(w.T)
	text, err := bootstrap.Render(p)
	w.Check(err)
	overrides = append(overrides, adminAt(admin))
	for _, override := range overrides {
		text, err = bootstrap.Merge(text, []byte(override))
		w.Check(err)
	}
	started := w.run(strings.Split(p.Node.Name, ".")[0], text)
	started.Admin = fmt.Sprintf("127.0.0.1:%d", admin)
	started.HTTP = fmt.Sprintf("127.0.0.1:%d", p.Metadata.HTTPProxyPort)
	return started
}

func adminAt(port int) string {
	return fmt.Sprintf(`{"admin": {"address": %s}}`, lab.SocketAddress(fmt.Sprintf("127.0.0.1:%d", port)))
}

// run starts an Envoy on a bootstrap.
func (w *world) run(name string, text []byte, arguments ...string) *lab.Proxy {
	w.T.Helper()
	path := filepath.Join(w.Dir, name+".json")
	w.Check(os.WriteFile(path, text, 0o600))
	argv := []string{w.Envoy, "-c", path, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"}
	process, err := lab.Start(lab.Spec{Name: name, Dir: w.Dir, Argv: append(argv, arguments...)})
	w.Check(err)
	w.T.Cleanup(func() { process.Stop(lab.StopLimit) })
	return &lab.Proxy{Process: process, W: w.World}
}

// listener is an override with a listener at a port of loopback that leads to a backend; rest is what else its HTTP
// connection manager has, ", …".
func listener(port int, to *lab.Backend, rest string) string {
	return fmt.Sprintf(`{"static_resources": {
  "listeners": [{"name": "mine", "address": %s, "filter_chains": [{"filters": [{"name": "http", "typed_config": {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "stat_prefix": "mine", "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
      {"match": {"prefix": "/"}, "route": {"cluster": "mine"}}]}]},
    "http_filters": [{"name": "router", "typed_config": {
      "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]%s
  }}]}]}],
  "clusters": [{"name": "mine", "load_assignment": {"cluster_name": "mine", "endpoints": [{"lb_endpoints": [
    {"endpoint": {"address": %s}}]}]}}]
}}`, lab.SocketAddress(fmt.Sprintf("127.0.0.1:%d", port)), rest,
		lab.SocketAddress(fmt.Sprintf("%s:%d", to.IP, to.Port)))
}

// ask sends a GET to a port of loopback; headers are pairs of name and value.
func ask(port int, path string, header ...string) (lab.Answer, error) {
	return lab.Exchange(&http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
		http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), header...)
}

// An override is merged as Envoy merges: what runs is what Envoy itself makes of both by its --config-yaml.
func TestBootstrapOverride(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.params("merged")
	p.Runtime, p.Stats.InclusionPrefixes = map[string]any{"a": "1"}, []string{"mine"}
	admin, port := lab.Port(w.T), lab.Port(w.T)
	overrides := []string{listener(port, w.Backend("app"), ""), `{
  "node": {"metadata": {"LABELS": {"app": "other"}}, "locality": {"region": "r"}},
  "dynamicResources": {"ads_config": {"api_type": "DELTA_GRPC"}, "lds_config": {"initial_fetch_timeout": "1.5s"}},
  "stats_flush_interval": "2s", "stats_config": {"stats_matcher": {"reject_all": false}},
  "layered_runtime": {"layers": [{"name": "more", "static_layer": {"b": 2}}]},
  "bootstrap_extensions": [{"name": "envoy.bootstrap.internal_listener", "typed_config": {
    "@type": "type.googleapis.com/envoy.extensions.bootstrap.internal_listener.v3.InternalListener"}}]
}`}
	rendered, err := bootstrap.Render(p)
	w.Check(err)
	plain, err := bootstrap.Merge(rendered, []byte(adminAt(admin)))
	w.Check(err)
	for _, override := range overrides {
		merged, err := bootstrap.Merge(plain, []byte(override))
		w.Check(err)
		want := w.runs("by-envoy", admin, plain, "--config-yaml", override)
		got := w.runs("by-us", admin, merged)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Envoy merges otherwise (-Envoy +we):\n%s", diff)
		}
		plain = merged
	}
	w.run("both", plain)
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		a, err := ask(port, "/")
		if err == nil {
			err = lab.From("app")(a)
		}
		return err
	}))
}

// The difference between what runs and what would be rendered now shows what would change, and no secret.
func TestBootstrapDiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	params := w.params("compared")
	params.Metadata.Extra = map[string]any{"API_TOKEN": "hunter-1"}
	rendered := func() []byte {
		text, err := bootstrap.Render(params)
		w.Check(err)
		return text
	}
	custom := filepath.Join(w.Dir, "custom.json")
	w.Check(os.WriteFile(custom, rendered(), 0o600))
	agent, err := w.Sidecar(lab.Workload{
		Name: "compared", App: "compared", IP: params.Node.IP, Discovery: w.Discovery.GRPC,
		Flags: []string{"--customConfigFile", custom, "--statusPort", "0"},
	})
	w.Check(err)
	t.Cleanup(func() { agent.Stop(lab.StopLimit) })
	w.Check(agent.AwaitReady())
	running, err := os.ReadFile(filepath.Join(agent.ConfigPath, "envoy-rev0.json"))
	w.Check(err)

	params.Metadata.Extra = map[string]any{"API_TOKEN": "hunter-2"}
	params.Discovery.ConnectTimeout, params.Zipkin = 2*time.Second, bootstrap.Address{Host: "10.0.0.1", Port: 9411}
	diff, err := bootstrap.Diff(running, rendered(), flight.Mask)
	w.Check(err)
	for _, want := range []string{
		"- admin: ", "- node.metadata.API_TOKEN: \"[masked]\" (differs)\n+ node.metadata.API_TOKEN: \"[masked]\" (differs)\n",
		"- static_resources.clusters[xds-grpc].connect_timeout: \"1s\"\n",
		"+ static_resources.clusters[xds-grpc].connect_timeout: \"2s\"\n",
		"+ static_resources.clusters[zipkin]: {", "+ tracing: {",
	} {
		if !strings.Contains(diff, want) {
			t.Errorf("no %q in\n%s", want, diff)
		}
	}
	if lines := strings.Count(diff, "\n"); lines != 7 || strings.Contains(diff, "hunter") {
		t.Errorf("got %d lines, want 7, and no secret:\n%s", lines, diff)
	}
}

// runs returns the bootstrap that an Envoy runs, for the time of the question.
func (w *world) runs(name string, admin int, text []byte, arguments ...string) any {
	w.T.Helper()
	p := w.run(name, text, arguments...)
	defer p.Stop(lab.StopLimit)
	url := fmt.Sprintf("http://127.0.0.1:%d", admin)
	w.Check(p.AwaitHTTP(30*time.Second, url+"/ready"))
	body, err := lab.Get(url + "/config_dump")
	w.Check(err)
	var dump struct{ Configs []map[string]any }
	w.Check(json.Unmarshal([]byte(body), &dump))
	return dump.Configs[0]["bootstrap"]
}
