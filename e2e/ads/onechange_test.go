package ads

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Among a thousand services a changed endpoint encodes one ClusterLoadAssignment, and a changed VirtualService one route
// configuration: discovery's own counter says so, and Envoy got nothing else.
func TestAChangeIsOneResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v1, v2 := w.Backend("v1"), w.Backend("v2")
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("ServiceEntry s%d", i),
			fmt.Sprintf("hosts: [s%d.test]\nlocation: MESH_INTERNAL\nresolution: STATIC\n"+
				"ports: [{number: 80, name: http, protocol: HTTP}]\nendpoints: [{address: 10.0.0.1}]", i))
	}
	w.ApplyAtOnce("many.yaml", many...)
	w.Service("app.test", v1)
	w.Service("other.test", v2)
	rule := func(to string) {
		w.Apply("VirtualService virtual", "hosts: [virtual.test]\nhttp: [{route: [{destination: {host: "+to+"}}]}]")
	}
	rule("app.test")
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.From("v1"), "http://virtual.test/")
	for name, test := range map[string]struct {
		change func()
		grows  string // of Envoy's updates
	}{
		"an endpoint":      {func() { w.Service("app.test", v2) }, `^cluster\.outbound\|80\|\|app\.test\.update_success$`},
		"a VirtualService": {func() { rule("other.test") }, `^http\..*\.rds\.http_proxy\.config_reload$`},
	} {
		updates := `^(cluster_manager\.cds|listener_manager\.lds|http\..*rds\..*|cluster\.outbound.*)\.(config_reload|update_success)$`
		before, one := p.Stat(updates), p.Stat(test.grows)
		test.change()
		p.Until(lab.From("v2"), "http://virtual.test/")
		if n := w.metric("pilot_xds_resources_encoded"); n != "1" {
			t.Errorf("%s: %s resources were encoded, want one", name, n)
		}
		w.Check(lab.Eventually(lab.StopLimit, func() error { // a worker of Envoy has an update before it is counted
			if p.Stat(test.grows) == one {
				return fmt.Errorf("%s: Envoy counts no update", name)
			}
			return nil
		}))
		if all, grown := p.Stat(updates)-before, p.Stat(test.grows)-one; grown != 1 || all < 1 || all > 2 {
			t.Errorf("%s: Envoy was updated %d times, %d times there, want once", name, all, grown)
		}
		rule("app.test")
		w.Service("app.test", v1)
		p.Until(lab.From("v1"), "http://virtual.test/")
	}
}

// metric returns the value of one of discovery's metrics, as it is written.
func (w *world) metric(name string) string {
	w.T.Helper()
	text, err := lab.Get("http://" + w.Discovery.Monitoring + "/metrics")
	w.Check(err)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	w.T.Fatalf("discovery has no metric %s", name)
	return ""
}
