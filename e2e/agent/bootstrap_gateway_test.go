package agent

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/e2e/lab"
	"github.com/pilotlight/pilotlight/node"
)

// Both roles of a gateway lead traffic from outside in, and under a memory limit refuse what they have no room for.
func TestBootstrapGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Service("app.test", w.Backend("app"))
	for _, role := range []node.Role{node.Ingress, node.Router} {
		name, bind := string(role), w.Address()
		w.Apply("Gateway "+name, fmt.Sprintf("selector: {app: %s}\nservers: "+
			"[{port: {number: 18080, name: http, protocol: HTTP}, bind: %s, hosts: [\"*\"]}]", name, bind),
			"VirtualService "+name, fmt.Sprintf("hosts: [app.test]\ngateways: [%s]\n"+
				"http: [{route: [{destination: {host: app.test}}]}]", name))
		get := func() (lab.Answer, error) {
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			return lab.Exchange(client, http.MethodGet, "http://"+bind+":18080/", "Host", "app.test")
		}
		params := w.params(name)
		params.Node.Role, params.Metadata.HTTPProxyPort, params.MemoryLimit = role, 0, 64<<20
		p := w.boot(params).Ready()
		w.Check(lab.Eventually(30*time.Second, func() error {
			a, err := get()
			if err == nil {
				err = lab.From("app")(a)
			}
			return err
		}))
		p.Stop(lab.StopLimit)

		params.MemoryLimit = 1 << 20 // less than any Envoy has
		p = w.boot(params).Ready()
		w.Check(lab.Eventually(30*time.Second, func() error {
			stats, err := lab.Stats(p.Admin, `^overload\..*active$`)
			for _, action := range []string{
				"shrink_heap", "stop_accepting_requests", "disable_http_keepalive", "stop_accepting_connections",
			} {
				if err == nil && stats["overload.envoy.overload_actions."+action+".active"] != 1 {
					err = fmt.Errorf("%s is not active: %v", action, stats)
				}
			}
			return err
		}))
		p.Stop(lab.StopLimit)
	}
	// A sidecar goes on taking connections: its program would wait in vain.
	params := w.params("small")
	params.MemoryLimit = 1 << 20
	p := w.boot(params).Ready()
	w.Check(lab.Eventually(30*time.Second, func() error {
		a, err := p.Get("http://app.test/")
		if err == nil && (a.Status != http.StatusServiceUnavailable || !strings.Contains(a.Body, "overloaded")) {
			err = fmt.Errorf("answers %d %s", a.Status, a.Body)
		}
		return err
	}))
}

// The bootstrap of every shape of a node starts, and discovery reads the same node from it.
func TestBootstrapRegistries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Service("app.test", w.Backend("app"))
	for registry, id := range map[string]node.ID{
		"Kubernetes": {Name: "reviews-1.default", Domain: "default.svc.cluster.local"},
		"Consul":     {Name: "10.1.2.3.service.consul", Domain: "service.consul"},
		"Other":      {Name: "10.1.2.3"},
	} {
		params := w.params(registry)
		id.Role, id.IP = node.Sidecar, params.Node.IP
		params.Node, params.Discovery.Variant = id, bootstrap.Delta
		p := w.boot(params).Ready()
		p.Until(lab.From("app"), "http://app.test/")
		p.Stop(lab.StopLimit)
	}
}
