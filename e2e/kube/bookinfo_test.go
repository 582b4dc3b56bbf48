//go:build kube

package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// kubectl runs kubectl as an administrator does, from the project's directory, until it succeeds: a kind is not known at once
// when its definition is.
func (c *cluster) kubectl(args ...string) {
	c.t.Helper()
	check(c.t, lab.Eventually(30*time.Second, func() error { return c.kubectlOnce(args...) }))
}

func (c *cluster) kubectlOnce(args ...string) error {
	command := exec.CommandContext(c.t.Context(), part("kubectl"), args...)
	command.Dir = lab.Path()
	command.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfigOf("admin", "test"), "KUBECACHEDIR="+c.t.TempDir())
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %q: %w\n%s", args, err, output)
	}
	return nil
}

// bookinfo runs the programs of examples/bookinfo/kubernetes, which is applied, as their Pods would: each with the sidecar of a Pod
// that the API server knows, made by way of the webhook. Subsets are made of the Pods' labels, routes go by a header and by
// weight, and changes arrive.
func (w *world) bookinfo() {
	t := w.t
	proxies := map[string]string{}
	for i, p := range [][2]string{{"productpage", "v1"}, {"details", "v1"}, {"reviews", "v1"}, {"reviews", "v2"}, {"ratings", "v1"}} {
		proxies[p[0]+"-"+p[1]] = w.member(p[0], p[1], fmt.Sprintf("10.1.1.%d", i+1))
	}
	const reviews = "http://reviews:9080/reviews/0"
	from := proxies["productpage-v1"]
	check(t, lab.Eventually(time.Minute, func() error { return versions(from, reviews, "v2", "end-user", "jason") }))
	w.weigh(100, 0)
	check(t, lab.Eventually(time.Minute, func() error { return versions(from, reviews, "v1", "end-user", "someone") }))
	load := lab.StartLoad(from, reviews, 2, 1)

	// The whole page: productpage asks details and reviews, and v2 asks ratings, each by its own sidecar.
	check(t, lab.Eventually(time.Minute, func() error {
		page, err := lab.GetThrough(proxies["details-v1"], "http://productpage.bookinfo:9080/productpage", "end-user", "jason")
		if err == nil && (strings.Contains(page, "unavailable") || !strings.Contains(page, "Reviewer1")) {
			err = fmt.Errorf("the page is\n%s", page)
		}
		return err
	}))

	// Weights move the requests from one version to the other, by the labels of the Pods.
	w.weigh(0, 100)
	check(t, lab.Eventually(time.Minute, func() error { return versions(from, reviews, "v2") }))
	w.weigh(50, 50)
	check(t, lab.Eventually(time.Minute, func() error { return versions(from, reviews, "v1 v2") }))
	w.weigh(100, 0)
	check(t, lab.Eventually(time.Minute, func() error { return versions(from, reviews, "v1") }))
	requests, failures := load.Stop()
	if t.Logf("%d requests to reviews, %d failed", requests, len(failures)); requests == 0 || len(failures) > 0 {
		t.Errorf("requests failed, want none: %q", failures)
	}
}

// weigh divides the requests for reviews.
func (w *world) weigh(v1, v2 int) {
	w.t.Helper()
	w.kubectl("-n", "bookinfo", "patch", "virtualservice", "reviews", "--type", "json", "-p", fmt.Sprintf(
		`[{"op": "replace", "path": "/spec/http/1/route/0/weight", "value": %d}, {"op": "replace", "path": "/spec/http/1/route/1/weight", "value": %d}]`, v1, v2))
}

// versions asks thirty times, and reports whether the answers are of these versions.
func versions(proxy, url, want string, header ...string) error {
	seen := map[string]bool{}
	for range 30 {
		body, err := lab.GetThrough(proxy, url, header...)
		if err != nil {
			return err
		}
		for _, v := range []string{"v1", "v2"} {
			if strings.Contains(body, `"version": "`+v+`"`) || strings.Contains(body, `"version":"`+v+`"`) {
				seen[v] = true
			}
		}
	}
	got := ""
	for _, v := range []string{"v1", "v2"} {
		if seen[v] {
			got = strings.TrimSpace(got + " " + v)
		}
	}
	if got != want {
		return fmt.Errorf("%s is answered by %q, want %q", url, got, want)
	}
	return nil
}

// member starts a program of the bookinfo with its sidecar, and writes its Pod and its slice as a cluster does. It returns where
// the program's own requests go.
func (w *world) member(app, version, ip string) (proxy string) {
	w.t.Helper()
	name := app + "-" + version
	own := port(w.t)
	proxy = "127.0.0.1:" + port(w.t)
	w.hand.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: bookinfo, labels: {app: %[2]s, version: %[3]s}}
spec: {nodeName: n1, serviceAccountName: %[2]s, containers: [{name: app, image: none}]}
status: {phase: Running, podIP: %[4]s, podIPs: [{ip: %[4]s}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, namespace: bookinfo, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: http, port: %[5]s, protocol: TCP}]
endpoints: [{addresses: [%[4]s], conditions: {ready: true}, nodeName: n1, targetRef: {kind: Pod, namespace: bookinfo, name: %[1]s}}]`,
		name, app, version, ip, own))
	pod := w.hand.parse("apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: bookinfo}")
	stored, err := w.hand.resource(pod).Get(w.t.Context(), name, metav1.GetOptions{})
	check(w.t, err)
	if !strings.Contains(fmt.Sprint(stored.Object["spec"]), "istio-proxy") {
		w.t.Errorf("Pod %s has no sidecar: %v", name, stored.Object["spec"])
	}
	program, err := lab.Start(lab.Spec{Name: name, Dir: w.lab.Dir, Env: []string{"http_proxy=http://" + proxy}, Argv: []string{
		filepath.Join(w.lab.Bin, "bookinfo"), "-service", app, "-version", version, "-listen", "127.0.0.1:" + own,
	}})
	check(w.t, err)
	w.t.Cleanup(func() { program.Stop(stopLimit) })
	_, number, _ := strings.Cut(proxy, ":")
	s, err := w.lab.Sidecar(lab.Workload{
		Name: name, App: app, Version: version, IP: ip, Discovery: w.discovery.GRPC,
		Flags: []string{"--serviceregistry", "Kubernetes", "--id", name + ".bookinfo", "--domain", "bookinfo.svc.cluster.local"},
		Env:   []string{"ISTIO_META_CLUSTER_ID=Kubernetes", "ISTIO_META_HTTP_PROXY_PORT=" + number},
	})
	check(w.t, err)
	w.t.Cleanup(func() {
		s.Stop(stopLimit)
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", name, tail(s.Log()))
		}
	})
	check(w.t, s.AwaitReady())
	return proxy
}
