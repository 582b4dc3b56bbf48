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

	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The listeners for probes and for Prometheus are at every address of the host, lead to the agent's ports on loopback,
// and know one path each. They answer when Envoy has no memory left for anyone else.
func TestBootstrapListeners(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.params("probed")
	own := lab.Port(w.T)
	p.PrometheusPort, p.ReadinessPort, p.AdminPort, p.StatusPort = lab.Port(w.T), lab.Port(w.T), lab.Port(w.T), lab.Port(w.T)
	p.MemoryLimit = 1 << 20 // less than any Envoy has
	text, err := bootstrap.Render(p)
	w.Check(err)
	text, err = bootstrap.Merge(text, []byte(listener(own, w.Backend("app"), "")))
	w.Check(err)
	custom := filepath.Join(w.Dir, "custom.json")
	w.Check(os.WriteFile(custom, text, 0o600))
	agent, err := w.Sidecar(lab.Workload{
		Name: "probed", App: "probed", IP: p.Node.IP, Discovery: w.Discovery.GRPC,
		Flags: []string{
			"--customConfigFile", custom, "--proxyAdminPort", fmt.Sprint(p.AdminPort), "--statusPort", fmt.Sprint(p.StatusPort),
		},
	})
	w.Check(err)
	t.Cleanup(func() { agent.Stop(lab.StopLimit) })
	agent.Admin = fmt.Sprintf("127.0.0.1:%d", p.AdminPort)
	w.Check(agent.AwaitReady())

	w.Check(lab.Eventually(lab.StopLimit, func() error {
		body, err := lab.Get(fmt.Sprintf("http://127.0.0.1:%d/stats/prometheus?filter=server.live", p.PrometheusPort))
		if err == nil && !strings.Contains(body, "envoy_server_live") {
			err = fmt.Errorf("no metric of Envoy in %.200s", body)
		}
		return err
	}))
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		_, err := lab.Get(fmt.Sprintf("http://%s:%d/healthz/ready", p.Node.IP, p.ReadinessPort))
		return err
	}))
	for _, refused := range []struct {
		port int
		path string
	}{
		{p.PrometheusPort, "/config_dump"},
		{p.PrometheusPort, "/stats"},
		{p.PrometheusPort, "/stats/prometheus/"},
		{p.PrometheusPort, "/"},
		{p.ReadinessPort, "/status"},
		{p.ReadinessPort, "/healthz/ready/../../status"},
	} {
		if a, err := ask(refused.port, refused.path); err != nil || a.Status != http.StatusNotFound {
			t.Errorf("%d%s: got %d, %v; want 404", refused.port, refused.path, a.Status, err)
		}
	}
	response, err := http.Post(fmt.Sprintf("http://127.0.0.1:%d/stats/prometheus", p.PrometheusPort), "", nil)
	w.Check(err)
	response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("POST: got %s, want 404", response.Status)
	}
	// Any other listener refuses, since the heap is above its limit.
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		a, err := ask(own, "/")
		if err == nil && (a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "overloaded")) {
			err = fmt.Errorf("an overloaded Envoy answers %d %s", a.Status, a.Body)
		}
		return err
	}))
	_, err = lab.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz/ready", p.ReadinessPort))
	w.Check(err)
}

// With room enough the limit changes nothing, and Envoy says how much of it is used.
func TestBootstrapMemoryLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Service("app.test", w.Backend("app"))
	params := w.params("limited")
	params.MemoryLimit = 64 << 20
	p := w.boot(params).Ready()
	p.Until(lab.From("app"), "http://app.test/")
	w.Check(lab.Eventually(lab.StopLimit, func() error {
		stats, err := lab.Stats(p.Admin, `^overload\.`)
		if err == nil && stats["overload.envoy.resource_monitors.fixed_heap.pressure"] == 0 {
			err = fmt.Errorf("no pressure of the heap in %v", stats)
		}
		return err
	}))
}

// Envoy reports the node that the proxy was given, and ejected hosts are logged.
func TestBootstrapNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := w.Backend("app")
	broken.Status.Store(http.StatusServiceUnavailable)
	w.Service("app.test", broken)
	w.Apply("DestinationRule app", "host: app.test\ntrafficPolicy: {outlierDetection: "+
		"{consecutive5xxErrors: 1, interval: 1s, baseEjectionTime: 60s, maxEjectionPercent: 100}}")
	params := w.params("told")
	params.Locality = bootstrap.ParseLocality("europe/a/1")
	params.Metadata.Extra = map[string]any{"QUOTED": `"}\u00e9é`, "NESTED": map[string]any{"a": []any{1.5, nil, true}}}
	params.Runtime = map[string]any{"pilotlight.test": "value"}
	params.OutlierLogPath = filepath.Join(w.Dir, "outlier.log")
	p := w.boot(params).Ready()

	var info struct {
		Node struct {
			ID, Cluster string
			Locality    map[string]string
			Metadata    map[string]any
		}
	}
	body, err := lab.Get("http://" + p.Admin + "/server_info")
	w.Check(err)
	w.Check(json.Unmarshal([]byte(body), &info))
	if info.Node.ID != params.Node.String() || info.Node.Cluster != "told" || info.Node.Locality["sub_zone"] != "1" {
		t.Errorf("Envoy gets %+v", info.Node)
	}
	if got := info.Node.Metadata["QUOTED"]; got != params.Metadata.Extra["QUOTED"] {
		t.Errorf("metadata: got %q, want %q", got, params.Metadata.Extra["QUOTED"])
	}
	body, err = lab.Get("http://" + p.Admin + "/runtime")
	if err != nil || !strings.Contains(body, "pilotlight.test") {
		t.Errorf("the runtime has no value of ours: %v %s", err, body)
	}
	w.Check(lab.Eventually(30*time.Second, func() error {
		if _, err := p.Get("http://app.test/"); err != nil {
			return err
		}
		log, err := os.ReadFile(params.OutlierLogPath)
		if err == nil && !strings.Contains(string(log), `"EJECT"`) {
			err = fmt.Errorf("no ejection is logged: %s", log)
		}
		return err
	}))
}

// Envoy asks discovery by the variant's own method, and names itself.
func TestBootstrapVariant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for variant, method := range map[bootstrap.Variant]string{
		"": "StreamAggregatedResources", bootstrap.SotW: "StreamAggregatedResources",
		bootstrap.Delta: "DeltaAggregatedResources",
	} {
		discovery := w.grpcReceiver()
		params := w.params("variant" + string(variant))
		params.Discovery.Address, params.Discovery.Variant = discovery.address, variant
		w.boot(params)
		discovery.await(w, func() {}, "/envoy.service.discovery.v3.AggregatedDiscoveryService/"+method, params.Node.String())
	}
}
