//go:build kube

package kube

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/kubernetes"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

const echo = `
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z1}}
---
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: default}
spec: {selector: {app: echo}, ports: [{name: http, port: 80}]}`

// policy divides the traffic of echo.
func policy(v1, v2 int) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: echo, namespace: default}
spec: {host: echo, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: echo, namespace: default}
spec:
  hosts: [echo]
  http: [{route: [{destination: {host: echo, subset: v1}, weight: %d}, {destination: {host: echo, subset: v2}, weight: %d}]}]`, v1, v2)
}

// world is a cluster, discovery that follows it, and pods with their sidecars.
type world struct {
	*cluster
	lab       lab.Lab
	hand      hand
	discovery *lab.Discovery
	proxy     string // host:port of the client's outbound HTTP
	domain    model.Domain
}

// newWorld is a world whose discovery follows the cluster's Services and Istio objects.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	w.serve()
	return w
}

// leadPodsToLoopback makes a local address of each of a Pod: the API server takes no loopback address for an endpoint.
func leadPodsToLoopback(t testing.TB) {
	t.Helper()
	if output, err := exec.Command("ip", "route", "add", "local", "10.1.0.0/16", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("lead the pods' addresses to loopback: %v: %s", err, output)
	}
}

// emptyWorld is a world without discovery.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	leadPodsToLoopback(t)
	c := startCluster(t)
	w := &world{cluster: c, lab: lab.New(t.TempDir()), hand: c.hand()}
	w.hand.apply(rights)
	return w
}

// serve starts discovery, until the test ends.
func (w *world) serve(flags ...string) {
	w.t.Helper()
	w.discovery = w.replica(w.lab, flags...)
}

// replica starts discovery with a directory of its own, until the test ends.
func (w *world) replica(l lab.Lab, flags ...string) *lab.Discovery {
	w.t.Helper()
	files := filepath.Join(l.Dir, "none")
	check(w.t, os.Mkdir(files, 0o755))
	d, err := l.Discovery(files, append([]string{
		"--registries", "Kubernetes", "--kubernetesConfig", "--kubeconfig", w.kubeconfig("discovery"), "--kubeContext", "test",
	}, flags...)...)
	check(w.t, err)
	w.t.Cleanup(func() {
		d.Stop(stopLimit)
		if log := d.Log(); strings.Contains(log, "response refused") || w.t.Failed() {
			w.t.Errorf("discovery:\n%s", log)
		}
	})
	return d
}

// pod writes a Pod of the app echo, and starts its server and its sidecar.
func (w *world) pod(name, version, ip string) (port int) {
	w.t.Helper()
	w.hand.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, labels: {app: echo, version: %s}}
spec: {nodeName: n1, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: %s, podIPs: [{ip: %[3]s}], conditions: [{type: Ready, status: "True"}]}`, name, version, ip))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(w.t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, version) })}
	go server.Serve(l) //nolint:errcheck // it is closed
	w.t.Cleanup(func() { server.Close() })
	w.sidecar(name, version, ip, 0)
	return l.Addr().(*net.TCPAddr).Port
}

func (w *world) sidecar(name, version, ip string, proxy int) {
	w.t.Helper()
	s, err := w.lab.Sidecar(lab.Workload{
		Name: name, App: "echo", Version: version, IP: ip, ProxyPort: proxy, Discovery: w.discovery.GRPC,
		Flags: []string{"--serviceregistry", "Kubernetes", "--domain", "default.svc." + w.domain.String()}, Env: []string{"ISTIO_META_CLUSTER_ID=Kubernetes"},
	})
	check(w.t, err)
	w.t.Cleanup(func() {
		s.Stop(stopLimit)
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", name, tail(s.Log()))
		}
	})
	check(w.t, s.AwaitReady())
}

// slice lists one pod as an endpoint of echo, at its own port.
func slice(pod, ip string, port int, conditions string) string {
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: echo-%[1]s, namespace: default, labels: {kubernetes.io/service-name: echo}}
addressType: IPv4
ports: [{name: http, port: %[3]d, protocol: TCP}]
endpoints: [{addresses: [%[2]s], conditions: {%[4]s}, nodeName: n1, targetRef: {kind: Pod, namespace: default, name: %[1]s}}]`, pod, ip, port, conditions)
}

// answers waits until requests are answered by these versions and no others, several times in a row.
func (w *world) answers(versions ...string) {
	w.t.Helper()
	check(w.t, answeredAt(w.proxy, w.domain.Host("echo", "default"), versions...))
}

// answered waits until requests for a service of default are answered by these versions and no others.
func answered(proxy, service string, versions ...string) error {
	return answeredAt(proxy, model.DefaultDomain.Host(service, "default"), versions...)
}

func answeredAt(proxy, host string, versions ...string) error {
	const row = 30
	return lab.Eventually(60*time.Second, func() error {
		seen := map[string]int{}
		for range row {
			body, err := lab.GetThrough(proxy, "http://"+host+"/")
			if err != nil {
				return err
			}
			seen[body]++
		}
		for _, v := range versions {
			if seen[v] == 0 {
				return fmt.Errorf("%s is answered by %v, want %v", host, seen, versions)
			}
		}
		if len(seen) != len(versions) {
			return fmt.Errorf("%s is answered by %v, want %v", host, seen, versions)
		}
		return nil
	})
}

// sources waits until the page of sources has a text.
func (w *world) sources(text string) { w.page("/debug/sources", text) }

// registered waits until the registration has a host.
func (w *world) registered(host string) { w.page("/v1/registration", host) }

// page waits until a page of discovery has a text, pageLacks until it has not.
func (w *world) page(path, text string)      { w.t.Helper(); w.awaitPage(path, text, true) }
func (w *world) pageLacks(path, text string) { w.t.Helper(); w.awaitPage(path, text, false) }

func (w *world) awaitPage(path, text string, has bool) {
	w.t.Helper()
	check(w.t, lab.Eventually(2*time.Minute, func() error {
		page, err := lab.Get("http://" + w.discovery.HTTP + path)
		if err == nil && strings.Contains(page, text) != has {
			err = fmt.Errorf("%s is %s, want %s in it: %t", path, page, text, has)
		}
		return err
	}))
}

// Sidecars of Pods are told of the Services and the Istio objects of their cluster: routes work, changes arrive, kinds may come
// late and go, the API server may go and come back. No request fails.
func TestKubernetesMesh(t *testing.T) { lab.InNetworkNamespace(t, kubernetesMesh) }

func kubernetesMesh(t *testing.T) {
	w := newWorld(t)
	w.hand.apply(echo)
	one := w.pod("v1-a", "v1", "10.1.0.11")
	w.hand.apply(slice("v1-a", "10.1.0.11", one, "ready: true"))
	port, err := lab.FreePort()
	check(t, err)
	w.proxy = fmt.Sprintf("127.0.0.1:%d", port)
	w.sidecar("client", "client", "10.1.0.1", port)
	w.answers("v1")
	load := lab.StartLoad(w.proxy, "http://echo.default.svc.cluster.local/", 2, 1)

	// An endpoint comes, drains, and comes back.
	two := w.pod("v2-a", "v2", "10.1.0.12")
	w.hand.apply(slice("v2-a", "10.1.0.12", two, "ready: true"))
	w.answers("v1", "v2")
	w.hand.apply(slice("v2-a", "10.1.0.12", two, "ready: false, serving: true, terminating: true"))
	w.answers("v1")
	w.hand.apply(slice("v2-a", "10.1.0.12", two, "ready: true"))
	w.answers("v1", "v2")

	// The definitions come late. Labels of the Pods make the subsets.
	definitions := istioDefinitions(t)
	w.hand.apply(definitions)
	destination, _, _ := strings.Cut(policy(0, 100), "\n---\n")
	w.hand.apply(destination)
	w.page("/debug/configz", "DestinationRule") // before its routes come, which another watch tells
	w.hand.apply(policy(0, 100))
	w.answers("v2")
	w.hand.apply(policy(100, 0))
	w.answers("v1")

	// An object that is wrong keeps its last good form, and is named.
	w.hand.apply(strings.Replace(policy(0, 100), "hosts: [echo]", `hosts: ["echo_"]`, 1))
	w.sources("VirtualService/default/echo: spec.hosts[0]")
	w.answers("v1")
	w.hand.apply(policy(100, 0))

	// The API server goes for longer than a source waits, and comes back.
	w.stop()
	w.sources(`"failed"`)
	w.answers("v1")
	w.start()
	w.hand.apply(policy(50, 50))
	w.answers("v1", "v2")
	w.hand.apply(policy(100, 0)) // the routes leave first: a subset of which no endpoint is ready answers 503
	w.answers("v1")
	w.hand.apply(slice("v2-a", "10.1.0.12", two, "ready: false"))
	w.answers("v1")

	// The definitions go, and all objects with them: the routes first, for they name what the others declare.
	w.page("/debug/endpointz", `"not ready"`)
	w.hand.apply(slice("v2-a", "10.1.0.12", two, "ready: true"))
	w.pageLacks("/debug/endpointz", `"not ready"`) // before its routes come, which another watch tells
	w.hand.apply(policy(0, 100))
	w.answers("v2")
	w.hand.delete("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: virtualservices.networking.istio.io}")
	w.answers("v1", "v2")
	w.hand.delete(definitions)
	w.answers("v1", "v2")

	lab.Unharmed(t, load)
	w.refusals(t)
}

// refusals shows that a source says at once what a user without rights does not get, or fails: it does not wait for what
// will not come.
func (w *world) refusals(t *testing.T) {
	for user, want := range map[string]string{"stranger": "forbidden", "nobody": "Unauthorized"} {
		source := kubernetes.Source{Connect: func() (*kube.Client, error) { return kube.New(w.config(user), "test") }}
		ctx, cancel := context.WithCancel(t.Context())
		updates, ended := make(chan model.Update), make(chan error, 1)
		go func() { ended <- source.Run(ctx, updates) }()
		said := ""
		select {
		case u := <-updates:
			for _, group := range u.Groups {
				if group.Len() > 0 {
					t.Errorf("%s gets %+v", user, group)
				}
				if group.Unread {
					said += strings.Join(group.Faults, "; ")
				}
			}
			cancel()
			check(t, <-ended)
		case err := <-ended:
			said = fmt.Sprint(err)
		case <-time.After(time.Minute):
			t.Errorf("%s gets neither an update nor an error", user)
		}
		cancel()
		if !strings.Contains(said, want) {
			t.Errorf("%s gets %q, want that it is %s", user, said, want)
		}
	}
}

// istioDefinitions are those of networking.istio.io that the project's version of istio.io/api ships.
func istioDefinitions(t testing.TB) string {
	t.Helper()
	return definitionsOf(t, "networking.istio.io", 8)
}

// definitionsOf returns Istio's definitions of the kinds of a group, of which there are so many at least.
func definitionsOf(t testing.TB, group string, least int) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api").Output()
	check(t, err)
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "kubernetes", "customresourcedefinitions.gen.yaml"))
	check(t, err)
	var out []string
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		if strings.Contains(document, "group: "+group+"\n") {
			out = append(out, document)
		}
	}
	if len(out) < least {
		t.Fatalf("there are %d definitions of %s, want %d or more", len(out), group, least)
	}
	return strings.Join(out, "\n---\n")
}
