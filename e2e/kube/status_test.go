//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// statusRights are what discovery needs to say at objects what is wrong with them, beside rights and leases.
var statusRights = allow("", "status",
	may("get", "networking.istio.io", istioKinds),
	may("patch", "networking.istio.io", strings.ReplaceAll(istioKinds, ",", "/status,")+"/status"),
	may("get", "security.istio.io", policyKinds),
	may("patch", "security.istio.io", strings.ReplaceAll(policyKinds, ",", "/status,")+"/status"),
	may("create", "events.k8s.io", "events"))

// rule is a VirtualService.
func rule(name, host, to string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s, namespace: default}
spec: {hosts: [%q], http: [{route: [{destination: {host: %s}}]}]}`, name, host, to)
}

// entry is a ServiceEntry of the host NAME.test.
func entry(name string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: default}
spec: {hosts: [%[1]s.test], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}`, name)
}

// writer starts a replica of discovery that writes what is wrong.
func writer(t *testing.T, c *cluster) *lab.Discovery {
	t.Helper()
	return writerAt(t, c.kubeconfig("discovery"))
}

// writerAt starts one that reaches the API server by a kubeconfig.
func writerAt(t *testing.T, kubeconfig string) *lab.Discovery {
	t.Helper()
	l := lab.New(t.TempDir())
	files := filepath.Join(l.Dir, "none")
	check(t, os.Mkdir(files, 0o755))
	d, err := l.Discovery(files, "--kubernetesConfig", "--writeStatus", "--leaseNamespace", "default", "--kubeconfig", kubeconfig, "--kubeContext", "test")
	check(t, err)
	t.Cleanup(func() {
		if d.Stop(stopLimit); t.Failed() {
			t.Logf("discovery:\n%s", tail(d.Log()))
		}
	})
	return d
}

// get returns a VirtualService.
func (h hand) get(name string) *unstructured.Unstructured {
	h.t.Helper()
	o, err := h.resource(h.parse(rule(name, "x", "y"))).Get(h.t.Context(), name, metav1.GetOptions{})
	check(h.t, err)
	return o
}

// says waits until the condition of a VirtualService begins so, as STATUS REASON GENERATION MESSAGE.
func (h hand) says(name, want string) {
	h.t.Helper()
	check(h.t, lab.Eventually(time.Minute, func() error {
		if got := conditionOf(h.get(name)); !strings.HasPrefix(got, want) || want == "" && got != "" {
			return fmt.Errorf("%s says %q, want %q", name, got, want)
		}
		return nil
	}))
}

func conditionOf(o *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range all {
		if c, ok := c.(map[string]any); ok && c["type"] == "PilotlightAccepted" {
			return strings.TrimSpace(fmt.Sprint(c["status"], " ", c["reason"], " ", c["observedGeneration"], " ", c["message"]))
		}
	}
	return ""
}

// events are the notes of the Events about an object.
func (h hand) events(name string) (out []string) {
	h.t.Helper()
	all, err := h.client.Resource(schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}).Namespace("default").List(h.t.Context(), metav1.ListOptions{})
	check(h.t, err)
	for _, e := range all.Items {
		if about, _, _ := unstructured.NestedString(e.Object, "regarding", "name"); about == name {
			reason, _, _ := unstructured.NestedString(e.Object, "reason")
			note, _, _ := unstructured.NestedString(e.Object, "note")
			out = append(out, strings.TrimSpace(reason+" "+note))
		}
	}
	return out
}

func logged(t testing.TB, d *lab.Discovery, text string) {
	t.Helper()
	check(t, lab.Eventually(time.Minute, func() error {
		if !strings.Contains(d.Log(), text) {
			return errors.New("the log does not have " + text)
		}
		return nil
	}))
}

// served writes a ServiceEntry, and waits until discovery has its host.
func served(t *testing.T, d *lab.Discovery, h hand, name string) {
	t.Helper()
	h.apply(entry(name))
	check(t, lab.Eventually(time.Minute, func() error {
		page, err := lab.Get("http://" + d.HTTP + "/v1/registration")
		if err == nil && !strings.Contains(page, name+".test") {
			err = fmt.Errorf("%s.test is not served", name)
		}
		return err
	}))
}

// pushes is how many meshes discovery has pushed.
func pushes(t *testing.T, d *lab.Discovery) int {
	t.Helper()
	now, err := (&station{discovery: d}).counts()
	check(t, err)
	return now.generation
}

// What is wrong with an object stands in its status and in an Event, once, and is taken back when it is mended. It causes no push.
// The replica that takes over writes nothing again. Without the right to write, serving goes on.
func TestStatus(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	hand := c.hand()
	hand.apply(rights)
	hand.apply(leases("default"))
	hand.apply(istioDefinitions(t))
	a := writer(t, c)
	logged(t, a, "msg=leading")

	hand.apply(rule("wrong", "echo_", "x"))
	logged(t, a, "statuses of Kubernetes' objects are not written") // there is no right
	hand.apply(statusRights)
	hand.says("wrong", `False Refused 1 spec.hosts[0]: is "echo_"`)
	hand.apply(entry("a"))
	hand.apply(rule("doubtful", "a.test", "nobody.test"))
	hand.says("doubtful", "True Doubtful 1 spec.http[0].route[0].destination.host: no service has the host nobody.test")
	hand.apply("apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: sound, namespace: default}\nspec: {egress: [{hosts: ['./*']}]}")
	b := writer(t, c)

	// Another control plane has a condition there too, which stays.
	other := hand.get("wrong")
	foreign := map[string]any{"type": "Reconciled", "status": "True", "observedGeneration": "1"}
	check(t, hand.try(func(context.Context) error {
		other = hand.get("wrong")
		all, _, _ := unstructured.NestedSlice(other.Object, "status", "conditions")
		check(t, unstructured.SetNestedSlice(other.Object, append(all, foreign), "status", "conditions"))
		_, err := hand.resource(other).UpdateStatus(t.Context(), other, metav1.UpdateOptions{FieldManager: "istiod"})
		return err
	}))
	hand.apply(strings.Replace(rule("wrong", "echo_", "x"), "hosts:", "exportTo: [x_], hosts:", 1))
	hand.says("wrong", "False Refused 2 spec.hosts[0]")
	served(t, a, hand, "between") // all changes before it are pushed too
	before := pushes(t, a)
	hand.apply(entry("nobody"))
	hand.apply(rule("wrong", "echo.test", "nobody.test"))
	hand.says("wrong", "True Accepted 3")
	hand.says("doubtful", "True Accepted 1")
	if n := pushes(t, a) - before; n > 2 {
		t.Errorf("two changes of objects and their statuses make %d pushes, want at most 2", n)
	}
	if got := fmt.Sprint(hand.get("wrong").Object["status"]); !strings.Contains(got, "Reconciled") || strings.Contains(got, "validationMessages") {
		t.Errorf("the mended object's status is %s", got)
	}
	for name, want := range map[string]int{"wrong": 3, "doubtful": 2, "sound": 0} {
		check(t, lab.Eventually(time.Minute, func() error { // an Event is written after the status
			if got := hand.events(name); len(got) != want {
				return fmt.Errorf("of %s there are the Events %q, want %d", name, got, want)
			}
			return nil
		}))
	}

	// Many are wrong at once: a push is not delayed by it, and each is written once.
	const many = 60
	began := time.Now()
	for i := range many {
		hand.apply(rule(fmt.Sprintf("many-%d", i), "echo_", "x"))
	}
	changed := time.Now()
	served(t, a, hand, "later")
	t.Logf("%d broken objects in %s; the next change is served after %s", many, time.Since(began).Round(time.Second), time.Since(changed).Round(time.Millisecond))
	for i := range many {
		hand.says(fmt.Sprintf("many-%d", i), "False Refused 1")
	}
	t.Logf("all are written after %s", time.Since(began).Round(time.Second))

	// The leader is killed. The other one begins, and leaves what is right.
	versions := map[string]string{}
	for i := range many {
		name := fmt.Sprintf("many-%d", i)
		versions[name] = hand.get(name).GetResourceVersion()
	}
	if strings.Contains(b.Log(), "msg=leading") {
		t.Error("both lead")
	}
	a.Signal(syscall.SIGKILL)
	logged(t, b, "msg=leading")
	hand.apply(rule("last", "echo_", "x"))
	hand.says("last", "False Refused 1")
	for name, version := range versions {
		if now := hand.get(name).GetResourceVersion(); now != version {
			t.Errorf("%s is written again: %s, after %s", name, now, version)
		}
	}
	if page, err := lab.Get("http://" + b.Monitoring + "/metrics"); err != nil || !strings.Contains(page, `pilotlight_leading{lease="default/pilotlight-discovery"} 1`) {
		t.Errorf("the metrics do not name the leader: %v", err)
	}
}
