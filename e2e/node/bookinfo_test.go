//go:build node

package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The way of docs/kubernetes.md on a real node: images that make image built, Pods that the kubelet starts, each with the
// sidecar that the webhook put in, and its traffic redirected by pod-init. Nothing is lost while everything is rolled out anew.
func TestBookinfoOnANode(t *testing.T) {
	onANode(t, func(n *node) {
		gateway := n.bookinfo() + ":80"
		for _, name := range []string{"reviews-v1", "reviews-v2"} { // longer than kube-proxy takes on a busy machine to leave an ending Pod out
			n.kubectl("-n", "bookinfo", "patch", "deployment", name, "--type=json", "-p",
				`[{"op": "replace", "path": "/spec/template/spec/containers/0/lifecycle/preStop/sleep/seconds", "value": 10}]`)
		}
		n.eventually(30*time.Second, func() error { return page(gateway) })

		// What the sidecar decides, not the Service: all requests go to v1, then to v2.
		const count = `i=0; while [ $i -lt 20 ]; do busybox wget -q -O- http://reviews:9080/reviews/0 | busybox head -c 16; i=$((i+1)); done`
		n.eventually(jobLimit, func() error { return n.job(count, `"v1"`, `"v2"`) })
		n.weigh(0, 100)
		n.eventually(jobLimit, func() error { return n.job(count, `"v2"`, `"v1"`) })
		n.weigh(100, 0)

		n.looks()
		streams := n.deployStreams()

		n.kubectl("-n", "bookinfo", "rollout", "status", "deployment", "--timeout=120s")
		n.gone("bookinfo")
		reviews := n.kubectl("-n", "bookinfo", "get", "service", "reviews", "-o", "jsonpath={.spec.clusterIP}")
		plain, open := n.plain(reviews+":9080", "/reviews/0"), n.openStreams(streams)
		load := lab.StartLoad(gateway, "http://bookinfo.example.com/productpage", 2, 2)
		for _, namespace := range []string{"istio-system", "istio-ingress", "bookinfo"} {
			n.kubectl("-n", namespace, "rollout", "restart", "deployment")
			n.kubectl("-n", namespace, "rollout", "status", "deployment", "--timeout=120s")
			n.gone(namespace)
		}
		lab.Unharmed(t, load)
		plain.unharmed(n)
		open.unharmed(n)
		n.scales(gateway)

		n.leavesNothing()
	})
}

// looks reads what the page shows of discovery, through kubectl port-forward.
func (n *node) looks() {
	n.t.Helper()
	said := n.page("trap 'kill $!' EXIT\n" + lab.Command(n.t, "docs/kubernetes.md", "port-forward") + "\n" + lab.Command(n.t, "docs/kubernetes.md", "/debug/adsz"))
	for _, want := range []string{"pod/productpage-v1-", "ready\n", `"state": "synced"`, `"locality_from"`} {
		if !strings.Contains(said, want) {
			n.t.Errorf("%s is not shown:\n%s", want, said)
		}
	}
}

// bookinfo applies the whole deployment and the bookinfo, and returns the address of the gateway's Service.
func (n *node) bookinfo() string {
	n.t.Helper()
	definitions := strings.TrimSpace(n.must("go", "list", "-m", "-f", "{{.Dir}}", "istio.io/api")) + "/kubernetes/customresourcedefinitions.gen.yaml"
	n.kubectl("apply", "--server-side", "-f", definitions)
	n.kubectl("apply", "-k", "deploy/kubernetes")
	n.names()
	n.page(lab.Command(n.t, "docs/kubernetes.md", "rollout status deployment/ingressgateway"))
	n.kubectl("apply", "-k", "examples/bookinfo/kubernetes")
	n.names()
	n.available("bookinfo")
	return n.kubectl("-n", "istio-ingress", "get", "service", "ingressgateway", "-o", "jsonpath={.spec.clusterIP}")
}

// page reports whether the gateway answers with the whole page.
func page(gateway string) error {
	text, err := lab.GetThrough(gateway, "http://bookinfo.example.com/productpage", "end-user", "jason")
	if err == nil && (strings.Contains(text, "unavailable") || !strings.Contains(text, "Reviewer1")) {
		err = fmt.Errorf("the page is %s", text)
	}
	return err
}

func (n *node) available(namespace string) {
	n.t.Helper()
	n.kubectl("-n", namespace, "wait", "--for=condition=Available", "--timeout=120s", "deployment", "--all")
}

func (n *node) weigh(v1, v2 int) {
	n.t.Helper()
	n.kubectl("-n", "bookinfo", "patch", "virtualservice", "reviews", "--type", "json", "-p", fmt.Sprintf(
		`[{"op": "replace", "path": "/spec/http/1/route/0/weight", "value": %d}, {"op": "replace", "path": "/spec/http/1/route/1/weight", "value": %d}]`, v1, v2))
}

// jobLimit is for several Jobs, one after the other: each is a Pod that starts and ends.
const jobLimit = 3 * time.Minute

// job runs a script as a Job, which ends although its Pod has a sidecar. Its output must have one text, and not the other.
func (n *node) job(script, want, without string) error {
	n.t.Helper()
	return n.jobOf("app: script", script, want, without)
}

// jobOf is one with this label.
func (n *node) jobOf(label, script, want, without string) error {
	n.t.Helper()
	n.kubectl("-n", "bookinfo", "delete", "job", "script", "--ignore-not-found")
	n.kubectl("apply", "-f", n.write("job.yaml", fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: script, namespace: bookinfo}
spec:
  backoffLimit: 0
  template:
    metadata: {labels: {%s}}
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: pilotlight/proxy:dev, command: [/bin/sh, -c, %q], securityContext: {runAsUser: 1000}}
`, label, script)))
	n.kubectl("-n", "bookinfo", "wait", "--for=condition=Complete", "--timeout=120s", "job/script")
	out := n.kubectl("-n", "bookinfo", "logs", "job/script", "-c", "main")
	if !strings.Contains(out, want) || strings.Contains(out, without) {
		return fmt.Errorf("the Job prints %s, want %s alone", out, want)
	}
	return nil
}

// gone waits until no Pod of a namespace ends any more.
func (n *node) gone(namespace string) {
	n.t.Helper()
	n.eventually(2*time.Minute, func() error {
		pods := n.kubectl("-n", namespace, "get", "pods", "--no-headers")
		if strings.Contains(pods, "Terminating") {
			return fmt.Errorf("Pods end still:\n%s", pods)
		}
		return nil
	})
}

// leavesNothing removes everything as it was applied: Pods end by themselves, and new ones of the namespace need no webhook.
func (n *node) leavesNothing() {
	n.t.Helper()
	n.kubectl("delete", "-k", "examples/bookinfo/kubernetes", "--timeout=120s")
	n.kubectl("delete", "-k", "deploy/kubernetes", "--timeout=120s")
	// In one write: the API server's cache of namespaces may not have a label yet that is added later.
	n.kubectl("apply", "-f", n.write("after.yaml",
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: after, labels: {istio-injection: enabled}}\n"))
	n.eventually(30*time.Second, func() error {
		_, err := n.run(part("kubectl"), "-n", "after", "run", "p", "--image=localhost/pause:1", "--restart=Never")
		return err
	})
	n.kubectl("-n", "after", "wait", "--for=condition=Ready", "--timeout=60s", "pod/p")
}
