//go:build registries

package registries

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// owners are a Service of Kubernetes and a ServiceEntry of another namespace than the one of registries.
const owners = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  clusterIP: 10.96.0.7
  ports: [{name: http, port: 80, targetPort: %[2]d}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: ["%[1]s"]}]
ports: [{name: http, port: %[2]d}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: bank}
spec:
  hosts: [api.bank.com, "*.pay.bank.com"]
  ports: [{name: http, number: 80, targetPort: %[2]d, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: "%[1]s"}]
`

// owned are names by which the owners are called.
var owned = []string{
	"web.default.svc.cluster.local", "web.default.svc", "web.default", "web", "10.96.0.7", "api.bank.com", "eu.pay.bank.com",
}

// get20 sends 20 requests for each host, and checks that one backend answers all of them.
func (w *world) get20(name string, hosts ...string) {
	w.T.Helper()
	for _, host := range hosts {
		got := map[string]int{}
		for range 20 {
			body, err := lab.GetThrough(w.proxy, "http://"+host+"/")
			if err != nil {
				body = err.Error()
			}
			got[body]++
		}
		if got[name] != 20 {
			w.T.Errorf("%s: 20 requests were answered by %v, want %s", host, got, name)
		}
	}
}

const other = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: other, namespace: other}
spec: {hosts: [other.test], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 127.0.0.1}]}
`

// Anybody registers, in Eureka and over NATS, hosts of a Service of Kubernetes and of another namespace's ServiceEntry: they get none of
// their requests, whether the operator allows the names or not, and whichever came first. Both are named, and other names are served.
func TestRegistriesTakeNoHostOfOthers(t *testing.T) {
	for what, flags := range map[string][]string{
		"by default":            {},
		"with every host given": {"--eurekaDomains", "*", "--natsDomains", "*"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			e, b := w.eureka(), w.broker()
			c := w.cells(b)
			port := w.port()
			owner, evil := w.backend("owner", 11, port), w.backend("evil", 12, port)
			w.configDir = filepath.Join(w.Dir, "config")
			w.check(os.Mkdir(w.configDir, 0o755))
			w.check(os.WriteFile(filepath.Join(w.configDir, "other.yaml"), []byte(other), 0o600)) // a directory that is left empty is a wipe
			names := append([]string{"*.bank.com", "*.default", "free.bank.com"}, owned...)
			for i, name := range names {
				if !strings.HasPrefix(name, "*") {
					w.check(e.registerAs("evil", fmt.Sprintf("evil-%d", i), evil.ip, evil.port, "UP", name+":80"))
				}
				w.check(c.register(name, body(name, "evil-"+fmt.Sprint(i), evil.ip, evil.port, nil)))
			}
			w.check(c.register("shop.cf.test", body("shop.cf.test", "shop", evil.ip, evil.port, nil)))
			w.check(e.registerAs("shop", "shop", evil.ip, evil.port, "UP", "shop:80"))
			w.serve(append(append([]string{"--registries", "Eureka,CloudFoundry", "--eurekaserverURL", e.url, "--eurekaserverInterval", "500ms"}, b.flags()...),
				flags...)...)
			w.sidecar()
			w.answers("http://shop.cf.test/", "evil")
			w.answers("http://shop.service.eureka/", "evil")

			w.check(os.WriteFile(filepath.Join(w.configDir, "owners.yaml"), fmt.Appendf(nil, owners, owner.ip, port), 0o600))
			for _, name := range owned { // endpoints of one are there before the route of another
				w.answers("http://"+name+"/", "owner")
			}
			w.get20("owner", owned...)
			w.answers("http://shop.cf.test/", "evil")
			w.answers("http://free.bank.com/", "evil") // NATS may give it: nobody has it
			pages := func() string { return w.get("/debug/notes") + w.get("/debug/sources") }
			w.eventually("owners.yaml:", pages)
			w.eventually("api.bank.com is a host of ServiceEntry bank/api (api.bank.com): what CloudFoundry Service", pages)
			w.eventually("web.default is a host of Kubernetes Service default/web", pages)
			w.eventually("eu.pay.bank.com is a host of ServiceEntry bank/api (*.pay.bank.com)", pages)
			w.eventually("web.default.svc.cluster.local is a name of svc.cluster.local", pages)
			for _, name := range []string{"Eureka", "CloudFoundry"} {
				w.eventually(name, pages)
			}

			// A registry that starts again does not take them either.
			b.kill()
			b.restart()
			w.get20("owner", owned...)
			w.check(os.Remove(filepath.Join(w.configDir, "owners.yaml")))
			w.answers("http://api.bank.com/", "evil")
		})
	}
}
