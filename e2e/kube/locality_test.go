//go:build kube

package kube

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// zones is a Node in each of two zones, and one in the zone of its third argument, "" for none.
func zones(moving string) string {
	node := func(name, zone string) string {
		labels := fmt.Sprintf("topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: %s", zone)
		if zone == "" {
			labels = ""
		}
		return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: %s, labels: {%s}}\n", name, labels)
	}
	return strings.Join([]string{node("n1", "z1"), node("n2", "z2"), node("moving", moving)}, "---\n")
}

func echoWith(setting string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: default}
spec: {selector: {app: echo}, ports: [{name: http, port: 80}]%s}`, setting)
}

// podOn writes a Pod on a Node.
func (w *world) podOn(node, name, ip string) {
	w.t.Helper()
	w.hand.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, labels: {app: echo, version: %[1]s}}
spec: {nodeName: %s, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: %s, podIPs: [{ip: %[3]s}], conditions: [{type: Ready, status: "True"}]}`, name, node, ip))
}

// A proxy has the locality of its Pod's Node without a setting of its agent: requests stay in its zone and go to the
// other one when the near Pod is not ready, or ends. They follow when the Node gets another zone, without a reconnect.
func TestLocalityOfNodes(t *testing.T) { lab.InNetworkNamespace(t, localityOfNodes) }

func localityOfNodes(t *testing.T) {
	w := newWorld(t)
	w.hand.apply(istioDefinitions(t))
	w.hand.apply(zones("z1"))
	w.hand.apply(echoWith(", trafficDistribution: PreferClose"))
	ports, near := map[string]int{}, map[string]*http.Server{}
	for name, at := range map[string][2]string{"one": {"n1", "10.1.0.11"}, "two": {"n2", "10.1.0.12"}} {
		l, err := net.Listen("tcp", at[1]+":0")
		check(t, err)
		ports[name] = l.Addr().(*net.TCPAddr).Port
		near[name] = &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, name) })}
		go near[name].Serve(l) //nolint:errcheck // it is closed
		t.Cleanup(func() { near[name].Close() })
		w.podOn(at[0], name, at[1])
		w.hand.apply(slice(name, at[1], ports[name], "ready: true"))
	}
	ready := func(yes bool) { w.hand.apply(slice("one", "10.1.0.11", ports["one"], fmt.Sprintf("ready: %t", yes))) }
	client := func(name, ip string) (proxy string) {
		port, err := lab.FreePort()
		check(t, err)
		w.sidecar(name, name, ip, port)
		return fmt.Sprintf("127.0.0.1:%d", port)
	}
	moving, settled := client("moving", "10.1.0.1"), client("settled", "10.1.0.2")
	both := func(first, second string) {
		t.Helper()
		w.proxy = moving
		w.answers(strings.Fields(first)...)
		w.proxy = settled
		w.answers(strings.Fields(second)...)
	}

	// The proxies come before their Pods.
	both("one two", "one two")
	w.page("/debug/adsz", `no workload of namespace \"default\" has its name or one of its addresses`)
	load := lab.StartLoad(moving, "http://echo.default.svc.cluster.local/", 2, 1)
	w.podOn("moving", "moving", "10.1.0.1")
	w.podOn("n2", "settled", "10.1.0.2")
	both("one", "two")
	w.page("/debug/adsz", `"workload default/moving of cluster Kubernetes"`)

	// The near Pod is not ready for a while. The Node of one proxy moves, loses its labels, and has them again.
	ready(false)
	both("two", "two")
	ready(true)
	both("one", "two")
	w.hand.apply(zones("z2"))
	both("two", "two")
	w.hand.apply(zones(""))
	both("one two", "two")
	w.page("/debug/adsz", "workload default/moving of cluster Kubernetes has none")
	w.hand.apply(zones("z1"))
	both("one", "two")

	// Without a preference nothing depends on the locality; with outlier detection it decides again.
	w.hand.apply(echoWith(""))
	both("one two", "one two")
	lab.Unharmed(t, load)
	w.hand.apply(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: echo, namespace: default}
spec:
  host: echo
  trafficPolicy:
    outlierDetection: {consecutive5xxErrors: 1, interval: 1s, baseEjectionTime: 300s, maxEjectionPercent: 100}`)
	both("one", "two")
	w.hand.apply(zones("z2"))
	both("two", "two")
	w.hand.apply(zones("z1"))
	both("one", "two")
	near["one"].Close()
	both("two", "two")
}
