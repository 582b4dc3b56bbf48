//go:build kube

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The API server takes each result of `discovery inject` that the golden files hold, and stores none of its fields elsewhere.
func TestAPIServerTakesWhatIsInjected(t *testing.T) {
	c := startCluster(t)
	hand := c.hand()
	hand.apply(namespaceOf("shop") + "\n---\n" + namespaceOf("legacy"))
	paths, err := filepath.Glob(lab.Path("discovery", "inject", "testdata", "*.golden"))
	check(t, err)
	taken := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		check(t, err)
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			o := hand.parse(document)
			objects := []runtime.Object{o}
			if o.IsList() {
				list, err := o.ToList()
				check(t, err)
				objects = nil
				for i := range list.Items {
					objects = append(objects, &list.Items[i])
				}
			}
			for _, object := range objects {
				one := object.(*unstructured.Unstructured)
				_, err := hand.resource(one).Create(t.Context(), one, metav1.CreateOptions{DryRun: []string{"All"}, FieldValidation: "Strict"})
				if err != nil && !apierrors.IsAlreadyExists(err) {
					t.Errorf("%s: %s %s: %v", filepath.Base(path), one.GetKind(), one.GetName(), err)
				}
				if strings.Contains(document, "istio-proxy") {
					taken++
				}
			}
		}
	}
	if taken < 8 {
		t.Errorf("%d objects with a sidecar were shown to the API server, want one of each kind", taken)
	}
}

var injectRights = allow("default", "injection", mayNamed("injection", "list, watch", "", "configmaps")) + `
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Namespace
metadata: {name: elsewhere}`

// injectWebhook returns the webhooks of deploy/kubernetes, but for the URL.
func injectWebhook(t *testing.T, address string) string {
	t.Helper()
	text, err := os.ReadFile(lab.Path("deploy", "kubernetes", "discovery", "webhooks.yaml"))
	check(t, err)
	first, _, _ := strings.Cut(string(text), "\n---\n")
	const service = "service: {namespace: istio-system, name: istio-pilot, path: /inject, port: 443}"
	if !strings.Contains(first, service) || !strings.Contains(first, "name: pilotlight-injection\n") {
		t.Fatalf("the webhooks of deploy/kubernetes are others:\n%s", first)
	}
	return strings.NewReplacer(service, `url: "https://`+address+`/inject"`, "name: pilotlight-injection\n", "name: ours\n").Replace(first)
}

func injection(data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: injection, namespace: default}\ndata: {" + data + "}"
}

func podOf(namespace, metadata, spec string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: " + namespace + ", " + metadata + "}\nspec: {" + spec + "}"
}

const appSpec = `containers: [{name: app, image: "example/app:1"}]`

// warned collects the warnings that the API server sends with its answers.
type warned struct{ texts []string }

func (w *warned) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// The real API server asks discovery about Pods, and they get their sidecar.
func TestInjectionWebhook(t *testing.T) {
	c := startCluster(t)
	hand := c.hand()
	hand.apply(rights + "\n---\n" + keeperRights + "\n---\n" + injectRights)
	said := &warned{}
	config := rest.CopyConfig(c.config("admin"))
	config.WarningHandler = said
	client, err := dynamic.NewForConfig(config)
	check(t, err)
	hand.client = client
	address := "127.0.0.1:" + port(t)
	l := lab.New(t.TempDir())
	files := filepath.Join(l.Dir, "none")
	check(t, os.Mkdir(files, 0o755))
	discovery, err := l.Discovery(files, "--kubeconfig", c.kubeconfig("discovery"), "--kubeContext", "test", "--webhookAddr", address,
		"--mutatingWebhookConfiguration", "ours", "--webhookService", "default/discovery", "--webhookSecret", "certificate", "--webhookHosts", "127.0.0.1",
		"--injectConfigMap", "default/injection", "--registrySyncTimeout", "2s")
	check(t, err)
	check(t, lab.Eventually(30*time.Second, func() error {
		got, err := lab.Get("http://" + discovery.HTTP + "/ready?verbose")
		if err == nil && !strings.Contains(got, "ConfigMap default/injection: it is not there: no Pod can be injected") {
			err = fmt.Errorf("ready without its ConfigMap it says %q", got)
		}
		return err
	}))
	t.Cleanup(func() {
		discovery.Stop(stopLimit)
		if strings.Contains(discovery.Log(), "PRIVATE") {
			t.Error("a key is in the log")
		}
		if t.Failed() {
			t.Logf("discovery:\n%s", tail(discovery.Log()))
		}
	})
	hand.apply(injectWebhook(t, address))
	create := func(text string, dry bool) (*unstructured.Unstructured, error) {
		options := metav1.CreateOptions{FieldValidation: "Strict"}
		if dry {
			options.DryRun = []string{"All"}
		}
		o := hand.parse(text)
		return hand.resource(o).Create(t.Context(), o, options)
	}
	sidecar := func(o *unstructured.Unstructured) string {
		for _, kind := range []string{"initContainers", "containers"} {
			list, _, _ := unstructured.NestedSlice(o.Object, "spec", kind)
			for _, c := range list {
				if c := c.(map[string]any); c["name"] == "istio-proxy" {
					return fmt.Sprint(kind, " ", c["image"])
				}
			}
		}
		return ""
	}
	eventually := func(want string) {
		t.Helper()
		check(t, lab.Eventually(30*time.Second, func() error {
			o, err := create(strings.Replace(podOf("shop", "", appSpec), "name: p,", "name: fresh,", 1), true)
			if err != nil {
				return err
			}
			if got := sidecar(o); got != want {
				return fmt.Errorf("the sidecar is %q, want %q", got, want)
			}
			return nil
		}))
	}

	// Without a configuration no Pod begins without its sidecar.
	check(t, lab.Eventually(30*time.Second, func() error {
		if _, err := create(podOf("shop", "", appSpec), true); err == nil || !strings.Contains(err.Error(), "no answer") {
			return fmt.Errorf("without a ConfigMap: %v", err)
		}
		return nil
	}))
	hand.apply(injection(`config: "image: example/proxy:1"`))
	eventually("initContainers example/proxy:1")

	for _, tt := range []struct{ name, text, want string }{
		{"another namespace", podOf("elsewhere", "", appSpec), ""},
		{"out by its label", podOf("shop", `labels: {sidecar.istio.io/inject: "false"}`, appSpec), ""},
		{"out by its annotation", podOf("shop", `annotations: {sidecar.istio.io/inject: "false"}`, appSpec), ""},
		{"the network of its node", podOf("shop", "", "hostNetwork: true, "+appSpec), ""},
		{"not native", podOf("shop", `annotations: {sidecar.istio.io/nativeSidecar: "false"}`, appSpec), "containers example/proxy:1"},
		{"a name that is made", strings.Replace(podOf("shop", "", appSpec), "name: p,", "generateName: p-,", 1), "initContainers example/proxy:1"},
	} {
		o, err := create(tt.text, true)
		if err != nil || sidecar(o) != tt.want {
			t.Errorf("%s: the sidecar is %q, want %q: %v", tt.name, sidecar(o), tt.want, err)
		}
	}
	for _, tt := range []struct{ name, text, want string }{
		{"a wrong value", podOf("shop", `annotations: {sidecar.istio.io/proxyCPU: much}`, appSpec), `annotation sidecar.istio.io/proxyCPU: is "much", want a quantity`},
		{"only a sidecar", podOf("shop", "", `containers: [{name: istio-proxy, image: auto}]`), "there is only istio-proxy"},
		{"two of one name", podOf("shop", "", `containers: [{name: a, image: a}, {name: a, image: a}]`), "two of it"},
	} {
		if _, err := create(tt.text, true); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
	// The labels of namespace and Pod select as Istio's chart does.
	all, err := lab.Selections()
	check(t, err)
	made := map[string]bool{}
	for _, s := range all {
		name := "is" + strings.Map(func(r rune) rune {
			if r < 'a' || r > 'z' {
				return '-'
			}
			return r
		}, fmt.Sprint(s.Namespace)) + "x"
		ns, err := json.Marshal(s.Namespace)
		check(t, err)
		pod, err := json.Marshal(s.Pod)
		check(t, err)
		if !made[name] {
			hand.apply(fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: %s}", name, ns))
			made[name] = true
		}
		o, err := create(podOf(name, fmt.Sprintf("labels: %s", pod), appSpec), true)
		if err != nil || (sidecar(o) != "") != s.Injected {
			t.Errorf("namespace %s, Pod %s: the sidecar is %q, want one: %v: %v", ns, pod, sidecar(o), s.Injected, err)
		}
	}
	// The API server asks again when a later webhook has changed the Pod.
	hand.apply(laterWebhook(t))
	const probed = `containers: [{name: app, image: a, livenessProbe: {httpGet: {path: /live, port: 80}}}]`
	var o *unstructured.Unstructured
	check(t, lab.Eventually(30*time.Second, func() (err error) {
		o, err = create(podOf("shop", `labels: {late: "true"}`, probed), true)
		if err == nil && !added(o) {
			err = errors.New("the API server does not call the later webhook yet")
		}
		return err
	}))
	late(t, o)

	// It has written Always into the Pod's own container, whose image has no tag: the sidecar's image has one.
	o, err = create(podOf("shop", "", `containers: [{name: app, image: "example/app:1"}, {name: istio-proxy, image: auto, securityContext: {runAsUser: 2000}}]`), true)
	check(t, err)
	spec, err := json.Marshal(o.Object["spec"])
	check(t, err)
	if text := string(spec); strings.Contains(text, `"imagePullPolicy":"Always"`) || !strings.Contains(text, `"-u","2000"`) {
		t.Errorf("with a container of its own the Pod is %s", text)
	}

	said.texts = nil
	_, err = create(podOf("shop", `annotations: {sidecar.istio.io/proxyCpu: 10m}`, appSpec), true)
	if check(t, err); !strings.Contains(strings.Join(said.texts, "\n"), "did you mean sidecar.istio.io/proxyCPU?") {
		t.Errorf("the warnings are %q", said.texts)
	}

	// A dry run has stored nothing. A Pod that is there takes further containers without being injected again.
	stored, err := create(podOf("shop", "", appSpec), false)
	check(t, err)
	if sidecar(stored) == "" || stored.GetAnnotations()["sidecar.istio.io/status"] == "" {
		t.Errorf("stored is %v", stored.Object)
	}
	o = hand.parse(podOf("shop", "", appSpec))
	ephemeral := `{"spec": {"ephemeralContainers": [{"name": "debug", "image": "example/debug:1"}]}}`
	changed, err := hand.resource(o).Patch(t.Context(), "p", "application/strategic-merge-patch+json", []byte(ephemeral), metav1.PatchOptions{}, "ephemeralcontainers")
	check(t, err)
	if a, b := initial(stored), initial(changed); a != 2 || b != 2 {
		t.Errorf("it had %d init containers, and has %d", a, b)
	}

	// What is broken changes nothing, and is said; what is mended counts.
	for _, broken := range []struct{ data, said string }{
		{`config: "imagee: example/proxy:2"`, "imagee"},
		{`config: "image: example/proxy:2", template: "{{.Imag}}"`, "Imag"},
		{`config: "image: example/proxy:2", template: "spec: {containers: [{name: istio-proxy, image: \"{{.Image}}\"}]}"`, "makes no YAML"},
	} {
		hand.apply(injection(broken.data))
		check(t, lab.Eventually(30*time.Second, func() error {
			if log := discovery.Log(); !strings.Contains(log, broken.said) || !strings.Contains(log, "the last sound one stays") {
				return fmt.Errorf("the log does not say %s", broken.said)
			}
			return nil
		}))
		eventually("initContainers example/proxy:1")
	}
	hand.apply(injection(`config: "image: example/proxy:3"`))
	eventually("initContainers example/proxy:3")
	hand.delete(injection(""))
	eventually("initContainers example/proxy:3")

	counted := []string{"pilotlight_webhook_certificate_kept 1\n", "pilotlight_injection_config_refused 1\n"}
	for _, outcome := range []string{"patched", "skipped", "refused", "unanswered"} {
		counted = append(counted, `pilotlight_webhook_reviews_total{outcome="`+outcome+`",path="/inject"}`)
	}
	check(t, lab.Eventually(30*time.Second, func() error { // the deletion reaches discovery by a watch
		metrics, err := lab.Get("http://" + discovery.Monitoring + "/metrics")
		for _, want := range counted {
			if err == nil && !strings.Contains(metrics, want) {
				err = fmt.Errorf("the metrics do not have %s", want)
			}
		}
		return err
	}))

	// When no replica answers, Pods that are left out begin all the same, and others do not.
	discovery.Stop(stopLimit)
	left := strings.Replace(podOf("shop", `labels: {sidecar.istio.io/inject: "false"}`, appSpec), "name: p,", "name: left,", 1)
	if _, err := create(left, true); err != nil {
		t.Errorf("without discovery: %v", err)
	}
	if o, err := create(podOf("shop", "", appSpec), true); err == nil || apierrors.IsAlreadyExists(err) {
		t.Errorf("without discovery a Pod begins as %v", o.Object)
	}
}

func initial(o *unstructured.Unstructured) int {
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", "initContainers")
	return len(list)
}

// An injected sidecar is started as a kubelet does, with its arguments and variables: the real agent takes them, its Envoy is ready,
// and the program's probes and metrics answer where the Pod says now.
func TestInjectedSidecarRuns(t *testing.T) { lab.InNetworkNamespace(t, injectedSidecarRuns) }

func injectedSidecarRuns(t *testing.T) {
	l := lab.New(t.TempDir())
	files := filepath.Join(l.Dir, "none")
	check(t, os.Mkdir(files, 0o755))
	discovery, err := l.Discovery(files, "--registries", "Mock")
	check(t, err)
	t.Cleanup(func() { discovery.Stop(stopLimit) })

	web, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	asked := make(chan string, 10)
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		switch in.URL.Path {
		case "/sick":
			out.WriteHeader(http.StatusServiceUnavailable)
		case "/metrics":
			fmt.Fprintln(out, "app_requests 7")
		default:
			asked <- in.URL.String() + " " + in.Header.Get("X-Probe")
		}
	})}
	go server.Serve(web) //nolint:errcheck // it is closed
	t.Cleanup(func() { server.Close() })
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	healthy := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(healthy, health.NewServer())
	go healthy.Serve(rpc) //nolint:errcheck // it is stopped
	t.Cleanup(healthy.Stop)
	number := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

	config, err := inject.ReadConfig("nativeSidecar: true\ndiscoveryAddress: " + discovery.GRPC)
	check(t, err)
	i, err := inject.New(config, inject.DefaultTemplate)
	check(t, err)
	given := (hand{t: t}).parse(fmt.Sprintf(`
metadata:
  name: web
  labels: {app: "we$(POD_NAME)b"}
  annotations:
    prometheus.io/scrape: "true"
    prometheus.io/port: "%[1]d"
    sidecar.istio.io/logLevel: info
    sidecar.istio.io/componentLogLevel: "upstream:warning"
    sidecar.istio.io/statsInclusionPrefixes: cluster,listener,server
    traffic.sidecar.istio.io/excludeOutboundPorts: "3306"
    proxy.istio.io/config: |
      concurrency: 1
      drainDuration: 10s
      parentShutdownDuration: 20s
      terminationDrainDuration: 1s
      meshId: "mesh $(POD_NAME)"
      runtimeValues: {overload.global_downstream_max_connections: "50000"}
      proxyMetadata: {ISTIO_META_DNS_CAPTURE: "false"}
      gatewayTopology: {numTrustedProxies: 1}
spec:
  serviceAccountName: web
  containers:
  - name: web
    image: none
    ports: [{name: http, containerPort: %[1]d}]
    livenessProbe: {httpGet: {path: "/live?a=$(POD_NAME)&b=$$c&d=\"'", port: http, httpHeaders: [{name: X-Probe, value: "$(HOST_IP)"}]}, timeoutSeconds: 20}
    readinessProbe: {httpGet: {path: /sick, port: %[1]d}, timeoutSeconds: 20}
    startupProbe: {tcpSocket: {port: http}, timeoutSeconds: 20}
    lifecycle: {preStop: {httpGet: {path: /stop, port: http}}}
  - name: rpc
    image: none
    livenessProbe: {grpc: {port: %[2]d}, timeoutSeconds: 20}
    readinessProbe: {tcpSocket: {port: 1}}
`, number(web), number(rpc)))
	result, err := i.Pod(inject.Namespace{Name: "shop"}, given.Object, nil)
	check(t, err)
	if len(result.Warnings) > 0 {
		t.Errorf("the warnings are %q", result.Warnings)
	}
	injected := unstructured.Unstructured{Object: result.Pod}
	agent, work := startSidecar(t, l, injected)
	const own = "http://127.0.0.1:15020"
	for _, doubt := range []string{"level=WARN", "level=ERROR"} {
		for line := range strings.Lines(agent.Log()) {
			if strings.Contains(line, doubt) && !strings.Contains(line, " source=") { // Envoy says something of each of its settings
				t.Errorf("the agent says %s", line)
			}
		}
	}

	for path, want := range map[string]int{
		"/app-health/web/livez": 200, "/app-health/web/readyz": 503, "/app-health/web/startupz": 200, "/app-lifecycle/web/prestopz": 200,
		"/app-health/rpc/livez": 200, "/app-health/rpc/readyz": 500,
	} {
		if text := fmt.Sprint(injected.Object["spec"]); !strings.Contains(text, path) {
			t.Errorf("the Pod does not name %s", path)
		}
		if got := statusOf(t, own+path); got != want {
			t.Errorf("%s answers %d, want %d", path, got, want)
		}
	}
	close(asked)
	var all []string
	for question := range asked {
		all = append(all, question)
	}
	if text := strings.Join(all, "\n"); !strings.Contains(text, `/live?a=$(POD_NAME)&b=$$c&d="' $(HOST_IP)`) {
		t.Errorf("the program was asked %q, want what its Pod said", all)
	}
	if metrics, err := lab.Get(own + "/stats/prometheus"); err != nil || !strings.Contains(metrics, "app_requests 7") || !strings.Contains(metrics, "envoy_server_live") {
		t.Errorf("the metrics are %v, of %d bytes", err, len(metrics))
	}
	status, err := lab.Get(own + "/status")
	check(t, err)
	var document struct{ Node string }
	check(t, json.Unmarshal([]byte(status), &document))
	if want := "sidecar~127.0.0.1~web.shop~shop.svc.cluster.local"; document.Node != want {
		t.Errorf("the node is %s, want %s", document.Node, want)
	}
	bootstraps, err := filepath.Glob(filepath.Join(work, "envoy-rev*.json"))
	if err != nil || len(bootstraps) != 1 {
		t.Fatalf("the bootstraps are %q, %v", bootstraps, err)
	}
	rendered, err := os.ReadFile(bootstraps[0])
	check(t, err)
	for _, want := range []string{`"we$(POD_NAME)b.shop"`, `"mesh $(POD_NAME)"`, discovery.GRPC[:strings.Index(discovery.GRPC, ":")], `"REDIRECT"`, `"SERVICE_ACCOUNT":"web"`} {
		if !strings.Contains(strings.ReplaceAll(string(rendered), `": `, `":`), want) {
			t.Errorf("the bootstrap does not have %s", want)
		}
	}
}

// startSidecar starts the agent of an injected Pod as a kubelet does, in its working directory, until the test ends. It
// waits until the agent is ready.
func startSidecar(t *testing.T, l lab.Lab, injected unstructured.Unstructured) (agent *lab.Process, work string) {
	t.Helper()
	list, _, _ := unstructured.NestedSlice(injected.Object, "spec", "initContainers")
	var sidecar map[string]any
	for _, c := range list {
		if c := c.(map[string]any); c["name"] == "istio-proxy" {
			sidecar = c
		}
	}
	env, argv := kubeletStarts(sidecar)
	work = filepath.Join(l.Dir, "work")
	check(t, os.Mkdir(work, 0o700))
	downward := func(name string, values map[string]string) string {
		text := ""
		for key, value := range values {
			text += fmt.Sprintf("%s=%q\n", key, value)
		}
		path := filepath.Join(l.Dir, name)
		check(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	env = append(env, // in the place of the image's and the volumes' paths
		"PILOTLIGHT_CONFIG_PATH="+work, "PILOTLIGHT_BINARY_PATH="+l.Envoy,
		"PILOTLIGHT_LABELS_FILE="+downward("labels", injected.GetLabels()), "PILOTLIGHT_ANNOTATIONS_FILE="+downward("annotations", injected.GetAnnotations()))
	agent, err := lab.Start(lab.Spec{Name: "agent", Dir: l.Dir, Env: env, Argv: append([]string{filepath.Join(l.Bin, "agent")}, argv...)})
	check(t, err)
	t.Cleanup(func() {
		if agent.Stop(stopLimit); t.Failed() {
			t.Logf("agent:\n%s", tail(agent.Log()))
		}
	})
	check(t, agent.AwaitHTTP(30*time.Second, "http://127.0.0.1:15020/healthz/ready"))
	return agent, work
}

func statusOf(t *testing.T, url string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	check(t, err)
	answer, err := http.DefaultClient.Do(request)
	check(t, err)
	defer answer.Body.Close()
	return answer.StatusCode
}

// kubeletStarts returns the environment and the arguments that a kubelet starts a container with: fields of the Pod filled in, and $(NAME)
// replaced by the variable, $$ by $.
func kubeletStarts(container map[string]any) (env, argv []string) {
	fields := map[string]string{
		"metadata.name": "web", "metadata.namespace": "shop", "status.podIP": "127.0.0.1", "status.hostIP": "127.0.0.1", "spec.serviceAccountName": "web",
	}
	known := map[string]string{}
	expand := func(text string) string {
		return regexp.MustCompile(`\$\$|\$\([^)]*\)`).ReplaceAllStringFunc(text, func(found string) string {
			if found == "$$" {
				return "$"
			}
			if value, is := known[found[2:len(found)-1]]; is {
				return value
			}
			return found
		})
	}
	variables, _ := container["env"].([]any)
	for _, v := range variables {
		v := v.(map[string]any)
		name := v["name"].(string)
		text, plain := v["value"].(string)
		if path, _, _ := unstructured.NestedString(v, "valueFrom", "fieldRef", "fieldPath"); !plain {
			known[name] = fields[path]
		} else {
			known[name] = expand(text)
		}
		env = append(env, name+"="+known[name])
	}
	arguments, _ := container["args"].([]any)
	for _, a := range arguments {
		argv = append(argv, expand(a.(string)))
	}
	return env, argv
}
