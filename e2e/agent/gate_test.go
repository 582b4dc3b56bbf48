package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// gated is a standalone whose listeners come by LDS, so that a newcomer may fail to get them.
type gated struct {
	*standalone
	lds      string // the file of its LDS
	bare     string // bootstrap without revision
	revision int    // of the bootstrap
}

// newGated prepares one with listeners from a file.
func newGated(t *testing.T) *gated {
	g := &gated{standalone: newStandalone(t), lds: filepath.Join(t.TempDir(), "lds.json")}
	g.dynamic(fmt.Sprintf(`"lds_config": {"resource_api_version": "V3", "path_config_source": {"path": %q}}`, g.lds), "")
	g.say(listenerOf("inbound", g.address, 1))
	g.configure(1)
	return g
}

// dynamic sets the dynamic resources, with more clusters that begin with a comma.
func (g *gated) dynamic(resources, clusters string) {
	g.bare = fmt.Sprintf(`{"node": {"id": "standalone", "cluster": "standalone", "metadata": {"revision": REVISION}},
		"dynamic_resources": {%s}, "static_resources": {"clusters": [%s%s]}}`,
		resources, staticCluster("program", g.program.Listener.Addr().String()), clusters)
	g.mutate = func(string) string {
		g.revision++
		return strings.Replace(g.bare, "REVISION", fmt.Sprint(g.revision), 1)
	}
}

// overADS gives it clusters and listeners from a discovery.
func (g *gated) overADS(from *script) {
	g.t.Helper()
	g.dynamic(`"ads_config": {"api_type": "GRPC", "transport_api_version": "V3", "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}]},
		"cds_config": {"resource_api_version": "V3", "ads": {}}, "lds_config": {"resource_api_version": "V3", "ads": {}}`,
		`, `+strings.Replace(staticCluster("xds", from.address), "{", `{"typed_extension_protocol_options": {
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
				"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"explicit_http_config": {"http2_protocol_options": {}}}}, `, 1))
	from.clusters(staticCluster("other", "127.0.0.1:9"))
	from.listeners(listenerOf("inbound", g.address, 1))
}

// say writes the LDS file as an editor does.
func (g *gated) say(listeners ...string) {
	g.t.Helper()
	for i, l := range listeners {
		listeners[i] = strings.Replace(l, "{", `{"@type": "`+typeListener+`", `, 1)
	}
	g.write(fmt.Sprintf(`{"resources": [%s]}`, strings.Join(listeners, ", ")))
}

func (g *gated) write(text string) {
	g.t.Helper()
	g.must(os.WriteFile(g.lds+"~", []byte(text), 0o600))
	g.must(os.Rename(g.lds+"~", g.lds))
}

// listenerOf is a good listener in front of the program; its answers carry a revision.
func listenerOf(name, address string, revision int) string {
	return fmt.Sprintf(`{"name": %q, "traffic_direction": "INBOUND", "address": %s, "filter_chains": [{"filters": [{"name": "http",
		"typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
			"stat_prefix": %q, "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"},
				"route": {"cluster": "program", "timeout": "0s"}, "response_headers_to_add": [{"header": {"key": "x-rev", "value": "%d"}}]}]}]},
			"http_filters": [{"name": "router", "typed_config": {
				"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}`,
		name, lab.SocketAddress(address), name, revision)
}

// unknownFilter is a listener that Envoy refuses.
func unknownFilter(name, address string) string {
	return fmt.Sprintf(`{"name": %q, "address": %s, "filter_chains": [{"filters": [{"name": "no.such.filter"}]}]}`, name, lab.SocketAddress(address))
}

// run starts the agent and waits until it serves alone.
func (g *gated) run(flags ...string) {
	g.t.Helper()
	g.launch(flags...)
	g.must(g.awaitRevision(1, startLimit))
	g.must(g.awaitAlone(lab.StopLimit))
}

// refuses waits until the agent has refused a bootstrap for a reason, and checks that the parent serves on as before.
func (g *gated) refuses(parent int, reason string) {
	g.t.Helper()
	g.must(g.awaitStatus(startLimit*2, "a refusal with "+reason, func(a agentStatus) bool {
		return a.Refusal != nil && strings.Contains(a.Refusal.Reason, reason)
	}))
	g.must(g.awaitStatus(startLimit, "one epoch that serves and is ready", func(a agentStatus) bool {
		return len(a.Epochs) == 1 && a.Ready
	}))
	if pid := g.pid("serving"); pid != parent {
		g.t.Errorf("process %d serves, want still %d", pid, parent)
	}
	if stats, err := lab.Get("http://" + g.Admin + "/stats?filter=^server.state$"); err != nil || !strings.Contains(stats, "server.state") {
		g.t.Errorf("the admin's front answers %.200q, %v", stats, err)
	}
}

// takesOver waits until the newest bootstrap runs alone.
func (g *gated) takesOver() {
	g.t.Helper()
	want := fmt.Sprintf(`"revision": %d`, g.revision)
	g.must(lab.Eventually(startLimit*3, func() error {
		dump, err := lab.Get("http://" + g.Admin + "/config_dump?mask=bootstrap")
		if err == nil && !strings.Contains(strings.ReplaceAll(dump, ".0", ""), want) {
			err = fmt.Errorf("bootstrap is %s, want %s", dump, want)
		}
		return err
	}))
	g.must(g.awaitAlone(startLimit))
}

// A handover over LDS loses no request, and the newcomer's own listener for the gate has no port.
func TestGateOpens(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	g.run("--handover", "hot", "--handoverTimeout", "1m")
	load := g.load()
	for range 3 {
		g.configure(2)
		g.takesOver()
	}
	lab.Unharmed(t, load)
	if a, err := g.ask(); err != nil || a.Counts["handed over to a newcomer"] != 3 || a.Counts["a newcomer failed, its parent serves on"] != 0 {
		t.Errorf("counts are %v, %v", a.Counts, err)
	}
}

// The bootstrap changes while discovery is away: the parent serves on until discovery is back.
func TestGateWhileDiscoveryIsAway(t *testing.T) {
	t.Parallel()
	discovery := startScript(t)
	g := newGated(t)
	g.overADS(discovery)
	g.configure(1)
	g.run()
	load, parent := g.lightLoad(), g.pid("serving")
	discovery.goAway()
	g.configure(2)
	g.refuses(parent, "CDS has not answered")
	discovery.comeBack()
	g.takesOver()
	lab.Unharmed(t, load)
}

// An LDS file is broken when the bootstrap changes: the parent serves on, and the repaired file heals it.
func TestGateWithBrokenListeners(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		ruin   func(g *gated)
		flags  []string
		reason string
	}{
		{"half-written", func(g *gated) { g.write(`{"resources": [{"@type": "type.goo`) }, nil, "LDS has not answered"},
		{"an unknown filter", func(g *gated) { g.say(unknownFilter("inbound", g.address)) }, nil, "no.such.filter"},
		{
			"an unknown filter, side by side", func(g *gated) { g.say(unknownFilter("inbound", g.address)) },
			[]string{"--handover", "side-by-side"},
			"no.such.filter",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGated(t)
			g.run(test.flags...)
			load, parent := g.lightLoad(), g.pid("serving")
			test.ruin(g)
			g.configure(2)
			g.refuses(parent, test.reason)
			requests, failures := load.Stop()
			if len(failures) > 0 {
				t.Errorf("%d of %d requests failed: %q", len(failures), requests, failures[0])
			}
			g.say(listenerOf("inbound", g.address, 2))
			g.Signal(syscall.SIGHUP)
			g.takesOver()
			g.must(g.awaitRevision(2, startLimit))
		})
	}
}

// A listener that the parent has and the newcomer would not get, since its newest version is refused, is not given up.
// What was taken away is.
func TestGateAfterARefusedUpdate(t *testing.T) {
	t.Parallel()
	g := newGated(t)
	g.run()
	load, parent := g.lightLoad(), g.pid("serving")
	g.say(unknownFilter("inbound", g.address), listenerOf("other", strings.Replace(g.address, "1:", "2:", 1), 1))
	g.must(g.AwaitLog("no.such.filter"))
	g.configure(2)
	g.refuses(parent, g.address)
	g.say(listenerOf("inbound", g.address, 3))
	g.takesOver() // by the repaired file alone
	g.must(g.awaitRevision(3, startLimit))
	lab.Unharmed(t, load)
	g.say(listenerOf("other", strings.Replace(g.address, "1:", "2:", 1), 1))
	g.configure(3)
	g.takesOver()
}

// Side by side a newcomer cannot have a port without SO_REUSEPORT as long as its parent lives. By hot restart it inherits it.
func TestGateWithoutReusePort(t *testing.T) {
	t.Parallel()
	for way, passes := range map[string]bool{"side-by-side": false, "auto": true} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			g := newGated(t)
			g.say(strings.Replace(listenerOf("inbound", g.address, 1), "{", `{"enable_reuse_port": false, `, 1))
			g.run("--handover", way)
			load, parent := g.lightLoad(), g.pid("serving")
			g.configure(2)
			if passes {
				g.takesOver()
			} else {
				g.refuses(parent, g.address)
			}
			lab.Unharmed(t, load)
		})
	}
}
