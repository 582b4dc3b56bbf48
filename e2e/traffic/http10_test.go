package traffic

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// HTTP/1.0 is answered 426 by gateways and sidecars, inbound and outbound, also at a port without a declared protocol under policies of
// HTTP. With ISTIO_META_HTTP10 of the agent it is served, and those policies decide.
func TestHTTP10(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	app := w.BackendAt("127.0.0.1", "app")
	w.Service("app.test", w.Backend("behind"))
	w.Apply("AuthorizationPolicy admin", "action: DENY\nrules: [{to: [{operation: {paths: [/admin]}}]}]",
		"VirtualService app", "hosts: [gw.test]\ngateways: [old, new]\nhttp: [{route: [{destination: {host: app.test}}]}]")
	// ask returns the status of the answer to a request, and whether the program behind 127.0.0.1 got it.
	ask := func(port int, host, path, version string) (status int, err error) {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), lab.StopLimit)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(lab.StopLimit))
		if strings.HasPrefix(host, "http://") {
			path = host + path // of a proxy's client
		}
		fmt.Fprintf(c, "GET %s %s\r\nHost: %s\r\n\r\n", path, version, strings.TrimPrefix(host, "http://"))
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, err
		}
		return a.StatusCode, a.Body.Close()
	}
	for _, name := range []string{"old", "new"} {
		gateway, declared, detected, outbound := lab.Port(t), lab.Port(t), lab.Port(t), lab.Port(t)
		ingress := func(port int, protocol string) string {
			return fmt.Sprintf(`{port: {number: %d, name: p%[1]d, protocol: %q}, bind: 127.0.0.1, captureMode: NONE, defaultEndpoint: "127.0.0.1:%d"}`, port, protocol, app.Port)
		}
		w.Apply("Sidecar "+name, fmt.Sprintf("workloadSelector: {labels: {app: %s}}\ningress: [%s, %s]\negress: [{hosts: [./app.test]}]", name, ingress(declared, "HTTP"), ingress(detected, "")),
			"Gateway "+name, fmt.Sprintf("selector: {app: %s-gw}\nservers: [{port: {number: %d, name: http, protocol: HTTP}, bind: 127.0.0.1, hosts: [gw.test]}]", name, gateway))
		var env []string
		if name == "old" {
			env = []string{"ISTIO_META_HTTP10=1"}
		}
		for _, role := range []lab.Workload{{Name: name, ProxyPort: outbound}, {Name: name + "-gw", Role: "router"}} {
			role.App, role.IP, role.Discovery, role.Env = role.Name, w.Address(), w.Discovery.GRPC, env
			agent, err := w.Sidecar(role)
			w.Check(err)
			t.Cleanup(func() { agent.Stop(lab.StopLimit) })
			w.Check(agent.AwaitReady())
		}
		for what, door := range map[string]struct {
			port   int
			host   string
			denies bool
		}{
			"gateway": {gateway, "gw.test", true}, "inbound, HTTP": {declared, "app.test", true}, "inbound, no protocol": {detected, "app.test", true},
			"outbound": {outbound, "http://app.test", false},
		} {
			for _, request := range []struct {
				version, path string
				status        int
			}{{"HTTP/1.1", "/", 200}, {"HTTP/1.1", "/admin", 403}, {"HTTP/1.0", "/", 200}, {"HTTP/1.0", "/admin", 403}} {
				want := request.status
				switch {
				case name == "new" && request.version == "HTTP/1.0":
					want = http.StatusUpgradeRequired
				case !door.denies:
					want = http.StatusOK
				}
				w.Check(lab.Eventually(lab.StopLimit, func() error {
					if got, err := ask(door.port, door.host, request.path, request.version); err != nil || got != want {
						return fmt.Errorf("%s, %s: %s %s is answered %d, %v; want %d", name, what, request.path, request.version, got, err, want)
					}
					return nil
				}))
			}
		}
	}
}
