//go:build kube

package kube

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// system and edges are the namespaces of discovery and of the gateway.
const system, edges = "istio-system", "istio-ingress"

// deployment is what a kustomization makes.
type deployment struct {
	t       testing.TB
	objects []*unstructured.Unstructured
}

// kustomized builds a directory of the project.
func (h hand) kustomized(dir ...string) deployment {
	h.t.Helper()
	out, err := exec.Command(part("kubectl"), "kustomize", lab.Path(dir...)).Output()
	var failed *exec.ExitError
	if ok := asExit(err, &failed); ok {
		h.t.Fatalf("kubectl kustomize: %s", failed.Stderr)
	}
	check(h.t, err)
	d := deployment{t: h.t}
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		d.objects = append(d.objects, h.parse(document))
	}
	return d
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

func (d deployment) find(kind, name string) *unstructured.Unstructured {
	d.t.Helper()
	i := slices.IndexFunc(d.objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if i < 0 {
		d.t.Fatalf("there is no %s %s", kind, name)
	}
	return d.objects[i]
}

// accept has the API server judge every object by strict validation, without taking it: only the namespace is made.
func (h hand) accept(d deployment) {
	h.t.Helper()
	for _, o := range d.objects {
		dry := []string{metav1.DryRunAll}
		if o.GetKind() == "Namespace" { // it is the first
			dry = nil
		}
		_, err := h.resource(o).Create(h.t.Context(), o.DeepCopy(), metav1.CreateOptions{FieldValidation: "Strict", DryRun: dry})
		if err != nil {
			h.t.Fatalf("%s %s/%s: %v", o.GetKind(), o.GetNamespace(), o.GetName(), err)
		}
	}
}

// follow runs the commands of a page of the documentation, in their order: those in blocks that are marked sh.
func (c *cluster) follow(page string) {
	c.t.Helper()
	for _, commands := range lab.Code(c.t, page, "sh") {
		c.shell(commands)
	}
}

// podOf is the Pod that a Deployment makes.
func (d deployment) podOf(name string) *unstructured.Unstructured {
	d.t.Helper()
	o := d.find("Deployment", name)
	template, found, err := unstructured.NestedMap(o.Object, "spec", "template")
	if err != nil || !found {
		d.t.Fatalf("Deployment %s has no template: %v", name, err)
	}
	pod := &unstructured.Unstructured{Object: template}
	pod.SetAPIVersion("v1")
	pod.SetKind("Pod")
	pod.SetNamespace(o.GetNamespace())
	pod.SetName(name)
	return pod
}

// argsOf are the arguments of a Deployment's first container.
func (d deployment) argsOf(name string) []string {
	d.t.Helper()
	containers, _, err := unstructured.NestedSlice(d.podOf(name).Object, "spec", "containers")
	check(d.t, err)
	args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	check(d.t, err)
	return args
}

// token is what the API server gives a Pod of a service account.
func (h hand) token(namespace, account string) string {
	h.t.Helper()
	request := h.parse("apiVersion: authentication.k8s.io/v1\nkind: TokenRequest\nmetadata: {name: " + account + "}\nspec: {}")
	o := h.parse("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: " + account + ", namespace: " + namespace + "}")
	answer, err := h.resource(o).Create(h.t.Context(), request, metav1.CreateOptions{}, "token")
	check(h.t, err)
	token, _, err := unstructured.NestedString(answer.Object, "status", "token")
	check(h.t, err)
	return token
}

// deploy/kubernetes is taken by a real API server, whose policy for Pods is the restricted one, and discovery works with the
// rights and the arguments that stand there, each of which it uses. The commands of docs/kubernetes.md lead from an empty cluster to
// the bookinfo, which works.
func TestDeployment(t *testing.T) { lab.InNetworkNamespace(t, deployed) }

func deployed(t *testing.T) {
	dir := t.TempDir()
	leadPodsToLoopback(t)
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	check(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600))
	c := startCluster(t, "--audit-policy-file="+policy, "--audit-log-path="+log, "--enable-aggregator-routing=true") // webhooks by endpoints
	hand := c.hand()
	d := hand.kustomized("deploy", "kubernetes")
	hand.accept(d)
	c.follow("docs/kubernetes.md")
	hand.inForce(d.objects, nil)
	for _, name := range []string{"discovery", "ingressgateway"} { // the namespace admits Pods that keep the restricted policy
		pod := d.podOf(name)
		_, err := hand.resource(pod).Create(t.Context(), pod, metav1.CreateOptions{FieldValidation: "Strict", DryRun: []string{metav1.DryRunAll}})
		check(t, err)
	}

	account, _, err := unstructured.NestedString(d.podOf("discovery").Object, "spec", "serviceAccountName")
	check(t, err)
	own := c.config("")
	own.BearerToken = hand.token(system, account)
	at := startDoor(t, c, own)
	at.old = answering(422, false) // so that lists are needed too, as with an older API server
	kubeconfig := c.write("kubeconfig-account", fmt.Sprintf(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://%s"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
`, at.address))
	l := lab.New(t.TempDir())
	files := filepath.Join(l.Dir, "none")
	check(t, os.Mkdir(files, 0o755))
	const pod = "10.1.2.1" // of discovery, for the API server
	hand.apply(misspelt("wrong"))
	hand.apply(policyOf("stored"))
	hand.apply(withKey)
	hand.apply("apiVersion: v1\nkind: Secret\nmetadata: {name: pilotlight-discovery-last-good, namespace: " + system + "}")                    // it is replaced, for it has no forms
	args := append(slices.DeleteFunc(d.argsOf("discovery"), func(arg string) bool { return strings.HasPrefix(arg, "--grpcAddr=127.0.0.1:") }), // one for all replicas
		"--kubeconfig", kubeconfig, "--caDir", filepath.Join(l.Dir, "none"))
	if len(args) == 0 || args[0] != "serve" {
		t.Fatalf("discovery's arguments are %q, want serve first", args)
	}
	server, err := l.Discovery(files, append(slices.Clone(args[1:]), "--webhookAddr", pod+":15017", "--secureGRPCAddr", pod+":15012")...)
	check(t, err)
	t.Cleanup(func() {
		server.Stop(stopLimit)
		if t.Failed() {
			t.Logf("discovery:\n%s", tail(server.Log()))
		}
	})
	w := &world{cluster: c, lab: l, hand: hand, discovery: server}
	hand.apply(echo)
	w.registered("echo.default.svc.cluster.local")
	w.registered("reviews.bookinfo.svc.cluster.local")
	w.page("/debug/configz", `"outboundTrafficPolicy"`) // of the ConfigMap that the page patches
	w.page("/debug/configz", `"weight": 80`)            // the route that the page changes last
	check(t, lab.Eventually(time.Minute, func() error { return allSynced(server) }))

	w.named("stored")
	c.abused(own)
	w.asked(pod)
	w.refusesPolicies()
	w.certified(pod + ":15012")
	w.bookinfo()
	// A replica whose certificate must have a further name changes the Secret.
	l.Dir = t.TempDir()
	other, err := l.Discovery(files, append(slices.Clone(args[1:]), "--webhookAddr", "127.0.0.1:0", "--secureGRPCAddr", "127.0.0.1:0", "--webhookHosts", "discovery.example.com")...)
	check(t, err)
	t.Cleanup(func() { other.Stop(stopLimit) })

	granted := d.rights(t, account)
	uses(t, log, account, granted)
	t.Logf("discovery uses each of the %d rights that it has", len(granted))
	d.endsInTime(t)
	w.appliedAgain()
	w.emergency()
	w.removed()
}

// endsInTime shows that a replica's end has the time that it needs: it serves until its Service has forgotten it, then takes
// leave of its proxies.
func (d deployment) endsInTime(t *testing.T) {
	t.Helper()
	spec := d.podOf("discovery").Object["spec"].(map[string]any)
	grace, _, _ := unstructured.NestedNumberAsFloat64(spec, "terminationGracePeriodSeconds")
	wait, found, _ := unstructured.NestedNumberAsFloat64(spec["containers"].([]any)[0].(map[string]any), "lifecycle", "preStop", "sleep", "seconds")
	if !found || wait < 2 {
		t.Errorf("a replica that ends refuses connections after %v s, while API servers call it still", wait)
	}
	for _, arg := range d.argsOf("discovery") {
		if text, is := strings.CutPrefix(arg, "--shutdownDuration="); is {
			leave, err := time.ParseDuration(text)
			check(t, err)
			if total := time.Duration(wait*float64(time.Second)) + leave; total >= time.Duration(grace*float64(time.Second)) {
				t.Errorf("a replica's end takes %s, and it is killed after %v s", total, grace)
			}
			return
		}
	}
	t.Error("there is no --shutdownDuration")
}

// injects reports whether the API server lets a Pod of a labelled namespace begin, and with how many init containers.
func (w *world) injects() (int, error) {
	o := w.hand.parse("apiVersion: v1\nkind: Pod\nmetadata: {name: again, namespace: bookinfo}\nspec: {serviceAccountName: default, containers: [{name: app, image: bookinfo}]}")
	made, err := w.hand.resource(o).Create(w.t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return 0, err
	}
	return initial(made), nil
}

// appliedAgain shows that the manifests, applied again in either way, leave the roots where they are, and that roots which a tool
// removes come back.
func (w *world) appliedAgain() {
	w.t.Helper()
	for _, how := range []string{"", " --server-side --force-conflicts"} {
		w.cluster.shell("kubectl apply -k deploy/kubernetes" + how)
		if n, err := w.injects(); err != nil || n == 0 {
			w.t.Errorf("after kubectl apply -k%s a Pod has %d init containers, %v", how, n, err)
		}
	}
	w.cluster.shell("kubectl kustomize deploy/kubernetes | kubectl replace -f -")
	check(w.t, lab.Eventually(time.Minute, func() error {
		if n, err := w.injects(); err != nil || n == 0 {
			return fmt.Errorf("after kubectl replace a Pod has %d init containers: %w", n, err)
		}
		return nil
	}))
}

// emergency shows that the command for an emergency ends injection, and that the manifests, applied again, bring it back.
func (w *world) emergency() {
	w.t.Helper()
	w.cluster.shell(lab.Command(w.t, "docs/kubernetes.md", "delete mutatingwebhookconfiguration"))
	check(w.t, lab.Eventually(time.Minute, func() error {
		if n, err := w.injects(); err != nil || n > 0 {
			return fmt.Errorf("without the configuration a Pod has %d init containers, %w", n, err)
		}
		return nil
	}))
	w.cluster.shell("kubectl apply -k deploy/kubernetes")
	check(w.t, lab.Eventually(time.Minute, func() error {
		if n, err := w.injects(); err != nil || n == 0 {
			return fmt.Errorf("with the configuration again a Pod has %d init containers, %w", n, err)
		}
		return nil
	}))
}

// removed shows that nothing that is left after kubectl delete -k keeps a Pod from beginning.
func (w *world) removed() {
	w.t.Helper()
	w.cluster.shell("kubectl delete -k deploy/kubernetes --wait=false") // no controller empties the namespace here
	check(w.t, lab.Eventually(time.Minute, func() error {
		n, err := w.injects()
		if err == nil && n > 0 {
			err = fmt.Errorf("it has %d init containers", n)
		}
		return err
	}))
}

// shell runs commands, which may call kubectl with the rights of an administrator.
func (c *cluster) shell(commands string) {
	c.t.Helper()
	shell := exec.CommandContext(c.t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	shell.Dir = lab.Path()
	shell.Env = append(os.Environ(), "PATH="+lab.Path("bin", "kube")+":"+os.Getenv("PATH"), "KUBECONFIG="+c.kubeconfigOf("admin", "test"), "KUBECACHEDIR="+c.t.TempDir())
	if output, err := shell.CombinedOutput(); err != nil {
		c.t.Fatalf("%v\n%s\n%s", err, commands, output)
	}
}

// asked shows that the API server asks discovery by its Service, as the configurations of deploy/kubernetes say: a Pod of a
// labelled namespace gets a sidecar, and a wrong object is refused.
func (w *world) asked(pod string) {
	w.t.Helper()
	w.hand.apply(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: istio-pilot, namespace: istio-system, labels: {kubernetes.io/service-name: istio-pilot}}
addressType: IPv4
ports: [{name: https-webhook, port: 15017, protocol: TCP}]
endpoints: [{addresses: [` + pod + `], conditions: {ready: true}}]`)
	o := w.hand.parse(`
apiVersion: v1
kind: Pod
metadata: {name: reviews, namespace: bookinfo, labels: {app: reviews, version: v1}}
spec: {serviceAccountName: default, containers: [{name: app, image: bookinfo}]}`)
	check(w.t, lab.Eventually(time.Minute, func() error {
		made, err := w.hand.resource(o).Create(w.t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if text := fmt.Sprint(made.Object["spec"]); !strings.Contains(text, "istio-proxy") || !strings.Contains(text, "istio-pilot.istio-system.svc:15012") {
			return fmt.Errorf("the Pod has no sidecar of this mesh: %s", text)
		}
		return nil
	}))
	wrong := w.hand.parse(misspelt("refused"))
	check(w.t, lab.Eventually(time.Minute, func() error {
		_, err := w.hand.resource(wrong).Create(w.t.Context(), wrong, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "spec.hosts[0]") {
			return fmt.Errorf("the API server takes a wrong object: %v", err)
		}
		return nil
	}))
}

// withKey is a Gateway whose key discovery reads for the gateway's account.
const withKey = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shop, namespace: istio-ingress}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: [shop.example.com], tls: {mode: SIMPLE, credentialName: shop}}]}`

// misspelt is a VirtualService whose host is none.
func misspelt(name string) string {
	return "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: " + name + ", namespace: default}\n" +
		"spec: {hosts: [echo_], http: [{route: [{destination: {host: x}}]}]}"
}

// allSynced reports which source of discovery is not.
func allSynced(d *lab.Discovery) error {
	page, err := lab.Get("http://" + d.HTTP + "/debug/sources")
	if err != nil {
		return err
	}
	var sources []struct{ Name, State, Error string }
	if err := json.Unmarshal([]byte(page), &sources); err != nil {
		return err
	}
	for _, s := range sources {
		if s.State != "synced" {
			return fmt.Errorf("source %s is %s: %s", s.Name, s.State, s.Error)
		}
	}
	if len(sources) < 3 {
		return fmt.Errorf("the sources are %s, want three or more", page)
	}
	return nil
}

// rights are those that the Roles of an account grant, one for each verb of each resource, by the names that they are for.
func (d deployment) rights(t testing.TB, account string) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, o := range d.objects {
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
			continue
		}
		bound := d.find(o.GetKind()+"Binding", o.GetName())
		var binding rbacv1.RoleBinding
		check(t, runtime.DefaultUnstructuredConverter.FromUnstructured(bound.Object, &binding))
		if !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == account && s.Namespace == system }) {
			continue
		}
		for g := range grants(t, o) {
			out[g.String()] = true
		}
	}
	return out
}

// uses waits until the audit log shows that an account has used each of its rights. No request may have been refused.
func uses(t testing.TB, log, account string, rights map[string]bool) {
	t.Helper()
	check(t, lab.Eventually(time.Minute, func() error {
		used, refused, err := audited(log, "system:serviceaccount:"+system+":"+account)
		switch {
		case err != nil:
			return err
		case len(refused) > 0:
			t.Fatalf("the API server refuses %q", slices.Sorted(maps.Keys(refused)))
		}
		rest := maps.Clone(rights)
		maps.DeleteFunc(rest, func(right string, _ bool) bool { return used[right] || used[ofAnyKind(right)] })
		if len(rest) > 0 {
			return fmt.Errorf("not used are %q", slices.Sorted(maps.Keys(rest)))
		}
		return nil
	}))
}

// ofAnyKind is the right to the object, or the status, of some kind of Istio's in the place of the right to one kind: what is done
// to one object alone is done to all kinds alike.
func ofAnyKind(right string) string {
	verb, resource, _ := strings.Cut(right, " ")
	kind, group, _ := strings.Cut(resource, ".")
	if group != "networking.istio.io" && group != "security.istio.io" || verb == "list" || verb == "watch" {
		return right
	}
	_, status, _ := strings.Cut(kind, "/")
	return verb + " any/" + status + "." + group
}

// audited reads what a user asked, as the API server noted it.
func audited(path, user string) (used, refused map[string]bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	used, refused = map[string]bool{}, map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Verb           string
			User           struct{ Username string }
			ObjectRef      struct{ Resource, APIGroup, Namespace, Name, Subresource string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, nil, fmt.Errorf("read the audit log: %w", err)
		}
		if e.User.Username != user || e.ObjectRef.Resource == "" {
			continue
		}
		o := e.ObjectRef
		resource := strings.TrimSuffix(o.Resource+"/"+o.Subresource, "/")
		if e.ResponseStatus.Code == 401 || e.ResponseStatus.Code == 403 {
			refused[grant{o.Namespace, o.APIGroup, resource, o.Name, e.Verb}.String()] = true
			continue
		}
		names := []string{o.Name}
		if e.Verb != "list" && e.Verb != "watch" || o.Namespace == edges { // a right to all of them is used by one: people name the gateway's keys
			names = append(names, "")
		}
		for _, name := range names {
			for _, namespace := range []string{o.Namespace, ""} {
				one := grant{namespace, o.APIGroup, resource, name, e.Verb}.String()
				used[one], used[ofAnyKind(one)] = true, true
			}
		}
	}
	return used, refused, lines.Err()
}
