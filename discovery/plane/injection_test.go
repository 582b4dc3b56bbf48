package plane

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/inject/admission"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/golden"
)

// webhookOf returns the webhook of injection with the defaults, whose API server is a stand-in.
func webhookOf(t *testing.T, served func() *model.Mesh, sources func() []discovery.SourceStatus) *admission.Source {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "application/json")
		fmt.Fprint(out, `{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}`)
	}))
	t.Cleanup(api.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
clusters: [{name: a, cluster: {server: %q}}], users: [{name: a, user: {}}]}`, api.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{
		Domain: model.DefaultDomain, Webhooks: Webhooks{Mutating: "injection"}, Cluster: Cluster{Access: kube.Access{File: path}}, Log: slog.New(slog.DiscardHandler),
	}
	source := c.injection(served, sources)
	go source.Run(t.Context()) //nolint:errcheck // it ends with the test
	for deadline := time.After(30 * time.Second); source.Injector() == nil; {
		select {
		case <-deadline:
			t.Fatal("there is no injector")
		case <-time.After(time.Millisecond):
		}
	}
	return source
}

func reviewed(t *testing.T, source *admission.Source, pod string) *kube.AdmissionResponse {
	t.Helper()
	object, err := yaml.YAMLToJSON([]byte(pod))
	if err != nil {
		t.Fatal(err)
	}
	return source.Review(t.Context(), &kube.AdmissionRequest{
		Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Operation: kube.OperationCreate, Namespace: "shop", Object: runtime.RawExtension{Raw: object},
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

// injectionOf is the directory of a mesh and a Pod, which the command inject is tested with too: the two inject the same.
const injectionOf = "testdata/injection"

// The webhook injects what the command does: MeshConfig, ProxyConfig objects of the Pod's and of the root namespace, and
// the annotation, in Istio's order. Objects of another namespace have no effect.
func TestWebhookInjects(t *testing.T) {
	found, err := file.Read(filepath.Join(injectionOf, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	objects, problems := file.Check(found)
	settings, more := file.ReadSettings("MeshConfig", filepath.Join(injectionOf, "mesh.yaml"))
	if problems = append(problems, more...); config.HasErrors(problems) || settings == nil {
		t.Fatal(problems)
	}
	text, err := os.ReadFile(filepath.Join(injectionOf, "pod.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pod := string(text)
	mesh := model.New(slices.Values([]model.Group{{Objects: append(objects, settings)}}))
	var served *model.Mesh
	var sources []discovery.SourceStatus
	webhook := webhookOf(t, func() *model.Mesh { return served }, func() []discovery.SourceStatus { return sources })

	// Before there is a mesh, and while its settings are missing, there is no answer; a Pod that is left out needs none.
	if got := reviewed(t, webhook, pod); got != nil {
		t.Errorf("before the first mesh it answers %v", got)
	}
	if got := reviewed(t, webhook, strings.Replace(pod, "spec:", "spec:\n  hostNetwork: true", 1)); got == nil || !got.Allowed || got.Patch != nil {
		t.Errorf("a Pod without a sidecar: %v", got)
	}
	served = mesh
	for source, answers := range map[string]bool{"meshConfigMap": false, "kubernetesConfig": false, "config": false, "meshConfig": false, "Consul": true} {
		sources = []discovery.SourceStatus{{Name: source, Late: true}}
		if got := reviewed(t, webhook, pod); (got != nil) != answers {
			t.Errorf("while %s is late it answers %v", source, got)
		}
	}
	sources = nil

	answer := reviewed(t, webhook, pod)
	if answer == nil || !answer.Allowed || len(answer.Warnings) > 0 {
		t.Fatalf("it answers %+v", answer)
	}
	got, err := json.Marshal(patched(t, pod, answer.Patch))
	if err != nil {
		t.Fatal(err)
	}
	golden.JSON(t, got)
}
