package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/discovery/inject/admission"
	"github.com/pilotlight/pilotlight/discovery/model"
)

const injectedMesh = `
rootNamespace: root
defaultConfig:
  discoveryAddress: pilot.root.svc:15010
  drainDuration: 12s
  holdApplicationUntilProxyStarts: true
  concurrency: 1
  proxyMetadata: {A: mesh, B: mesh, C: mesh, D: mesh, POD_NAME: mesh}
  proxyStatsMatcher: {inclusionPrefixes: [cluster]}
  tracing: {zipkin: {address: "zipkin.root:9411"}}
`

const injectedObjects = `
{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, metadata: {name: all, namespace: root}, spec: {concurrency: 2, environmentVariables: {B: root, C: root}}}
---
{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, metadata: {name: web, namespace: root}, spec: {selector: {matchLabels: {app: web}}, environmentVariables: {ROOT: only}}}
---
{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, metadata: {name: all, namespace: shop}, spec: {environmentVariables: {C: shop}}}
---
{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}}, concurrency: 0, environmentVariables: {D: web}}}
---
{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, metadata: {name: all, namespace: other}, spec: {environmentVariables: {OTHER: "1"}}}
---
{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, metadata: {name: web, namespace: other}, spec: {selector: {matchLabels: {app: web}}, environmentVariables: {OTHER: "2"}}}
`

const injectedPod = `
apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: shop
  labels: {app: web}
  annotations: {proxy.istio.io/config: '{concurrency: 7, drainDuration: 15s, proxyMetadata: {D: annotation, E: annotation}}'}
spec:
  containers:
  - name: app
    image: example/app:1
`

// webhookOf returns the webhook of injection of the settings' defaults, whose API server is a stand-in.
func webhookOf(t *testing.T, served func() *model.Mesh, sources func() []discovery.SourceStatus) *admission.Source {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprint(out, `{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}`)
	}))
	t.Cleanup(api.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, path, fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: %q}}], users: [{name: a, user: {}}]}`, api.URL))
	s := newSettings()
	s.webhooks.mutating, s.cluster.access.File = "injection", path
	source := s.injection(served, sources, slog.New(slog.DiscardHandler))
	go source.Run(t.Context()) //nolint:errcheck // it ends with the test
	for deadline := time.After(10 * time.Second); source.Injector() == nil; {
		select {
		case <-deadline:
			t.Fatal("there is no injector")
		case <-time.After(time.Millisecond):
		}
	}
	return source
}

func reviewed(t *testing.T, source *admission.Source, pod string) *admissionv1.AdmissionResponse {
	t.Helper()
	object, err := yaml.YAMLToJSON([]byte(pod))
	if err != nil {
		t.Fatal(err)
	}
	return source.Review(t.Context(), &admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Operation: admissionv1.Create, Namespace: "shop", Object: runtime.RawExtension{Raw: object},
	})
}

// patched applies the operations of a patch of injection: add and remove, in objects.
func patched(t *testing.T, pod string, patch []byte) map[string]any {
	t.Helper()
	var out map[string]any
	if err := yaml.Unmarshal([]byte(pod), &out); err != nil {
		t.Fatal(err)
	}
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(patch, &operations); err != nil {
		t.Fatal(err)
	}
	for _, o := range operations {
		at, parts := out, strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		for i, part := range parts {
			key := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
			switch {
			case i < len(parts)-1:
				at = at[key].(map[string]any)
			case o.Op == "add":
				at[key] = o.Value
			default:
				delete(at, key)
			}
		}
	}
	return out
}

// The webhook and the command inject the same: MeshConfig, ProxyConfig objects of the Pod's and of the root namespace, and
// the annotation, in Istio's order. Objects of another namespace have no effect.
func TestWebhookAndCommandInjectAlike(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"mesh.yaml": injectedMesh, "objects/a.yaml": injectedObjects, "pod.yaml": injectedPod}
	if err := os.Mkdir(filepath.Join(dir, "objects"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	found, err := file.Read(filepath.Join(dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	objects, problems := file.Check(found)
	settings, more := file.ReadSettings("MeshConfig", filepath.Join(dir, "mesh.yaml"))
	if problems = append(problems, more...); config.HasErrors(problems) || settings == nil {
		t.Fatal(problems)
	}
	mesh := model.New(slices.Values([]model.Group{{Objects: append(objects, settings)}}))
	var served *model.Mesh
	var sources []discovery.SourceStatus
	webhook := webhookOf(t, func() *model.Mesh { return served }, func() []discovery.SourceStatus { return sources })

	// Before there is a mesh, and while its settings are missing, there is no answer; a Pod that is left out needs none.
	if got := reviewed(t, webhook, injectedPod); got != nil {
		t.Errorf("before the first mesh it answers %v", got)
	}
	if got := reviewed(t, webhook, strings.Replace(injectedPod, "spec:", "spec:\n  hostNetwork: true", 1)); got == nil || !got.Allowed || got.Patch != nil {
		t.Errorf("a Pod without a sidecar: %v", got)
	}
	served = mesh
	for source, answers := range map[string]bool{"meshConfigMap": false, "kubernetesConfig": false, "config": false, "meshConfig": false, "Consul": true} {
		sources = []discovery.SourceStatus{{Name: source, Late: true}}
		if got := reviewed(t, webhook, injectedPod); (got != nil) != answers {
			t.Errorf("while %s is late it answers %v", source, got)
		}
	}
	sources = nil

	answer := reviewed(t, webhook, injectedPod)
	if answer == nil || !answer.Allowed || len(answer.Warnings) > 0 {
		t.Fatalf("it answers %+v", answer)
	}
	byWebhook := patched(t, injectedPod, answer.Patch)
	var out, said bytes.Buffer
	args := []string{"inject", "-f", filepath.Join(dir, "pod.yaml"), "--meshConfig", filepath.Join(dir, "mesh.yaml"), "--proxyConfig", filepath.Join(dir, "objects")}
	if code := run(t.Context(), args, strings.NewReader(""), &out, &said); code != 0 {
		t.Fatalf("it exits %d: %s", code, said.String())
	}
	if want := "defaultConfig.proxyMetadata.POD_NAME: is set by the injector, ignored"; !strings.Contains(said.String(), want) {
		t.Errorf("the command says %q, want %s", said.String(), want)
	}
	var byCommand map[string]any
	if err := yaml.Unmarshal(out.Bytes(), &byCommand); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(byWebhook, byCommand) {
		t.Errorf("the webhook injects\n%v\nthe command\n%v", byWebhook, byCommand)
	}
	var sidecar map[string]any
	for _, c := range byCommand["spec"].(map[string]any)["initContainers"].([]any) {
		if c := c.(map[string]any); c["name"] == "istio-proxy" {
			sidecar = c
		}
	}
	variables := map[string]any{}
	for _, v := range sidecar["env"].([]any) {
		variables[v.(map[string]any)["name"].(string)] = v.(map[string]any)["value"]
	}
	want := map[string]any{"A": "mesh", "B": "root", "C": "shop", "D": "web", "E": "annotation", "PROXY_CONFIG": `{"concurrency":0}`, "POD_NAME": nil, "OTHER": nil, "ROOT": nil}
	for name, value := range want {
		if variables[name] != value {
			t.Errorf("%s is %v, want %v", name, variables[name], value)
		}
	}
	if _, there := variables["OTHER"]; there {
		t.Error("it has a variable of another namespace")
	}
	arguments := fmt.Sprint(sidecar["args"])
	for _, want := range []string{"--discoveryAddress pilot.root.svc:15010", "--drainDuration 15s", "--statsInclusionPrefixes cluster", "--zipkinAddress zipkin.root:9411"} {
		if !strings.Contains(arguments, want) {
			t.Errorf("the arguments are %s, want %s", arguments, want)
		}
	}
}

// Injection and the validation of objects know the same reserved variables and the same fields.
func TestInjectionAndValidationAgree(t *testing.T) {
	if a, b := inject.Reserved(), config.ReservedVariables(); !slices.Equal(a, b) {
		t.Errorf("inject reserves %q, config %q", a, b)
	}
	served := map[string]bool{}
	for _, s := range config.SupportOf("MeshConfig") {
		if path, found := strings.CutPrefix(s.Path, "defaultConfig."); found && s.Served {
			served[path] = true
		}
	}
	elsewhere := []string{"tracing.sampling"}     // read by discovery itself
	removed := []string{"parentShutdownDuration"} // from Istio's API
	for _, path := range inject.ProxyConfigFields() {
		covered := slices.ContainsFunc(slices.Collect(maps.Keys(served)), func(s string) bool { return s == path || strings.HasPrefix(s, path+".") })
		if without := slices.Contains(inject.Without(), path); covered == without && !slices.Contains(elsewhere, path) && !slices.Contains(removed, path) {
			t.Errorf("%s: it has an effect in support.txt: %t; in injection: %t", path, covered, !without)
		}
	}
}
