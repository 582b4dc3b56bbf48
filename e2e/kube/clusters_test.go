//go:build kube

package kube

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// join is a Secret with a kubeconfig of each cluster that is given as a name and an address.
func join(name string, ca []byte, clusters ...string) string {
	out := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: mesh, labels: {istio/multiCluster: \"true\"}}\nstringData:\n", name)
	for i := 0; i+1 < len(clusters); i += 2 {
		out += fmt.Sprintf(`  %s: |
    {apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
     clusters: [{name: c, cluster: {server: "https://%s", certificate-authority-data: %s}}], users: [{name: u, user: {token: tok-discovery}}]}
`, clusters[i], clusters[i+1], base64.StdEncoding.EncodeToString(ca))
	}
	return out
}

// remotePod writes a Pod of echo into a cluster, and serves at its address.
func remotePod(t *testing.T, h hand, name, ip string) {
	t.Helper()
	h.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, labels: {app: echo, version: %[1]s}}
spec: {nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: %s, podIPs: [{ip: %[2]s}], conditions: [{type: Ready, status: "True"}]}`, name, ip))
	h.apply(slice(name, ip, backend(t, name, ip), "ready: true"))
}

// backend answers with a name, at a free port of an address.
func backend(t testing.TB, name, ip string) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	check(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, name) })}
	go server.Serve(l) //nolint:errcheck // it is closed
	t.Cleanup(func() { server.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// Services of three clusters are one. A cluster that says nothing, one that dies, and one whose Secret is wrong cost nothing of the
// others; the endpoints of one go with its Secret. All have the DNS domain of discovery, which is not the default.
func TestSeveralClusters(t *testing.T) { lab.InNetworkNamespace(t, severalClusters) }

func severalClusters(t *testing.T) {
	w := emptyWorld(t)
	w.domain = "corp.example"
	east, west := w.another("east"), w.another("west")
	// The user of discovery may not read Nodes in the east.
	east.hand().apply(strings.Replace(rights, "pods, nodes, namespaces", "pods, namespaces", 1))
	west.hand().apply(rights)
	for i, h := range []hand{w.hand, east.hand(), west.hand()} {
		h.apply(echo)
		remotePod(t, h, []string{"home", "east", "west"}[i], fmt.Sprintf("10.1.0.1%d", i))
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { silent.Close() })
	w.hand.apply(namespaceOf("mesh") + "\n---\n" + allow("mesh", "clusters", may("list, watch", "", "secrets")))
	w.hand.apply(join("east", east.ca, "east", east.address))
	w.hand.apply(join("silent", east.ca, "silent", silent.Addr().String()))

	// The first mesh waits for the east, and for the silent one no longer than its deadline.
	began := time.Now()
	w.serve("--domain", w.domain.String(), "--clusterRegistriesNamespace", "mesh", "--registrySyncTimeout", "5s")
	t.Logf("ready after %s", time.Since(began).Round(100*time.Millisecond))
	w.page("/ready?verbose", "source Kubernetes/silent: it has not synced within its deadline, discovery is ready without it")
	w.page("/ready?verbose", "source Kubernetes/east: malformed: nodes: there is none of localities of Nodes")
	w.metrics(`pilotlight_source_late{source="Kubernetes/silent"} 1`)
	port, err := lab.FreePort()
	check(t, err)
	w.proxy = fmt.Sprintf("127.0.0.1:%d", port)
	w.sidecar("client", "client", "10.1.0.1", port)
	w.answers("home", "east")
	load := lab.StartLoad(w.proxy, "http://echo.default.svc.corp.example/", 2, 1)
	for _, short := range []string{"echo", "echo.default", "echo.default.svc"} {
		check(t, answeredAt(w.proxy, short, "home", "east"))
	}

	// Another cluster comes. Its credentials change, and are wrong for a while.
	w.hand.apply(join("west", west.ca, "west", west.address))
	w.answers("home", "east", "west")
	w.hand.apply(join("west", east.ca, "west", west.address)) // roots of another authority
	w.sources("certificate signed by unknown authority")
	w.answers("home", "east", "west")
	w.hand.apply(strings.Replace(join("west", west.ca, "west", west.address), "https://", "http://", 1))
	w.page("/ready?verbose", "Secret/mesh/west/west: clusters[c].server is no URL of https")
	w.hand.apply(join("west", west.ca, "west", west.address))
	w.metrics(`pilotlight_source_state{source="Kubernetes/west",state="synced"} 1`)
	w.hand.apply(join("zz-thief", west.ca, "west", silent.Addr().String()))
	w.page("/ready?verbose", "Secret/mesh/zz-thief/west: is a cluster that Secret mesh/west has")

	// The API server of the east dies; what is known of it stays.
	east.stop()
	w.metrics(`pilotlight_source_state{source="Kubernetes/east",state="failed"} 1`)
	w.answers("home", "east", "west")

	// A Secret goes, and with it the endpoints.
	lab.Unharmed(t, load)
	w.hand.delete(join("east", east.ca))
	w.answers("home", "west")
	w.hand.delete(join("zz-thief", west.ca) + "\n---\n" + join("west", west.ca))
	w.answers("home")
}

func (w *world) metrics(text string) {
	w.t.Helper()
	check(w.t, lab.Eventually(2*time.Minute, func() error {
		page, err := lab.Get("http://" + w.discovery.Monitoring + "/metrics")
		if err == nil && !strings.Contains(page, text) {
			err = fmt.Errorf("the metrics have no %s", text)
		}
		return err
	}))
}
