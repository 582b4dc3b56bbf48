package traffic

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The directory that is applied to a cluster is served without one: the addresses of its pods are in a file beside it, as Endpoints,
// EndpointSlices and WorkloadEntries. Labels and ports that these do not say are those of the Deployments.
func TestADirectoryOfACluster(t *testing.T) {
	for _, domain := range []string{"cluster.local", "corp.example"} {
		t.Run(domain, func(t *testing.T) {
			t.Parallel()
			aDirectoryOfACluster(t, domain)
		})
	}
}

func aDirectoryOfACluster(t *testing.T, cluster string) {
	w := newWorld(t, "--domain", cluster)
	w.Domain = cluster
	details, v1, v2, ratings := w.Backend("details"), w.Backend("v1"), w.Backend("v2"), w.Backend("ratings")
	write := func(name, text string) { w.Check(os.WriteFile(filepath.Join(w.Config, name), []byte(text), 0o644)) }
	for _, name := range []string{"platform.yaml", "routing.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", "kubernetes", name))
		w.Check(err)
		write(name, string(text))
	}
	notes := func() (string, error) { return lab.Get("http://" + w.Discovery.HTTP + "/debug/notes") }
	says := func(want ...string) {
		t.Helper()
		w.Check(lab.Eventually(lab.StopLimit, func() error {
			page, err := notes()
			if err != nil {
				return err
			}
			if n := strings.Count(page, `"code"`); n != len(want) {
				return fmt.Errorf("there are %d notes, want %d: %s", n, len(want), page)
			}
			for _, text := range want {
				if !strings.Contains(page, text) {
					return fmt.Errorf("no note has %q: %s", text, page)
				}
			}
			return nil
		}))
	}
	says(`"object": "Deployment default/details-v1"`, `"object": "Deployment default/reviews-v1"`, `"object": "Deployment default/reviews-v2"`, `"object": "StatefulSet default/ratings"`)

	entry := func(name, version string, b *lab.Backend) string {
		return fmt.Sprintf("---\napiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: %s}\nspec: {address: %s, ports: {http: %d}, labels: {app: reviews, version: %s}}\n",
			name, b.IP, b.Port, version)
	}
	write("addresses.yaml", fmt.Sprintf(`
apiVersion: v1
kind: Endpoints
metadata: {name: details}
subsets: [{addresses: [{ip: %s}], ports: [{name: http, port: %d}]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ratings-1, labels: {kubernetes.io/service-name: ratings}}
addressType: IPv4
ports: [{name: http, port: %d}]
endpoints: [{addresses: [%s]}]
`, details.IP, details.Port, ratings.Port, ratings.IP)+entry("reviews-v1", "v1", v1))
	says("Deployment default/reviews-v2 has these labels, and its pods have no addresses here", `"object": "Deployment default/reviews-v2"`)
	write("more.yaml", entry("reviews-v2", "v2", v2))
	says()

	p := w.SidecarEnvoy("client", "")
	domain := ".default.svc." + cluster + ":9080/"
	p.Until(lab.From("details"), "http://details"+domain)
	p.Until(lab.From("v1"), "http://reviews"+domain)
	p.Until(lab.From("v2"), "http://reviews"+domain, "end-user", "jason")
	p.Until(lab.From("ratings"), "http://ratings"+domain) // whose subset is by a label that only the StatefulSet says
	for _, short := range []string{"reviews", "reviews.default", "reviews.default.svc"} {
		p.Until(lab.From("v2"), "http://"+short+":9080/", "end-user", "jason")
	}
	// A name of a service follows the service's rules and policies, also through another name.
	name := func(name, target string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {type: ExternalName, externalName: %s, ports: [{name: http, port: 9080}]}\n---\n", name, target)
	}
	write("names.yaml", name("alias", "reviews.default.svc."+cluster)+name("second", "alias.default.svc."+cluster))
	for _, alias := range []string{"alias" + domain, "second" + domain, "second:9080/"} {
		p.Until(lab.From("v2"), "http://"+alias, "end-user", "jason")
		p.Until(lab.From("v1"), "http://"+alias)
	}
	says()

	w.replay(p)
	// The hosts of a StatefulSet's Pods follow the rules of its headless Service.
	write("headless.yaml", `
apiVersion: v1
kind: Service
metadata: {name: stones}
spec: {clusterIP: None, ports: [{name: http, port: 9080}], selector: {app: stones}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: stones-1, labels: {kubernetes.io/service-name: stones}}
addressType: IPv4
ports: [{name: http, port: 9080}]
endpoints: [{addresses: [192.0.2.1], hostname: stones-0}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: stones}
spec: {hosts: [stones], http: [{route: [{destination: {host: ratings}}]}]}
`)
	for _, host := range []string{"stones" + domain, "stones-0.stones" + domain, "stones-0.stones:9080/"} {
		p.Until(lab.From("ratings"), "http://"+host)
	}

	// A gateway opens the port to which the Service before it leads from the Gateway's.
	bind := w.Address()
	opened, err := lab.FreePort()
	w.Check(err)
	write("gateway.yaml", fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: gw}
spec: {clusterIP: 10.255.0.1, ports: [{name: http, port: 80, targetPort: %d}], selector: {gateway: gw}}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw}
spec: {selector: {gateway: gw}, servers: [{port: {number: 80, name: http, protocol: HTTP}, bind: %s, hosts: [shop.test]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: gw}
spec: {hosts: [shop.test], gateways: [gw], http: [{match: [{port: 80}], route: [{destination: {host: details}}]}]}
`, opened, bind))
	w.GatewayEnvoy("gw")
	w.Await(lab.ClientTo(fmt.Sprintf("%s:%d", bind, opened), nil), "http://shop.test/", lab.From("details"))
	says()

	w.Check(os.Remove(filepath.Join(w.Config, "more.yaml")))
	p.Until(lab.Status(503), "http://reviews"+domain, "end-user", "jason")
	p.Until(lab.From("v1"), "http://reviews"+domain)
}
