package admission

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/discovery/kube"
)

const pod = `{"metadata": {"annotations": {%s}}, "spec": {"containers": [{"name": "app"}]}}`

func request(change func(*kube.AdmissionRequest)) *kube.AdmissionRequest {
	r := &kube.AdmissionRequest{
		UID: "u", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Operation: kube.OperationCreate, Namespace: "shop",
		Object: runtime.RawExtension{Raw: fmt.Appendf(nil, pod, "")},
	}
	change(r)
	return r
}

// wrongFields are fields that no volume has.
func wrongFields() (out string) {
	for n := range 5000 {
		out += fmt.Sprintf("field%d: 1, ", n)
	}
	return out
}

func TestReview(t *testing.T) {
	s := &Source{Log: slog.New(slog.DiscardHandler)}
	if got := s.Review(t.Context(), request(func(*kube.AdmissionRequest) {})); got != nil {
		t.Errorf("without a configuration it answers %v", got)
	}
	if err := s.take(nil, true); err != nil {
		t.Fatal(err)
	}
	raw := func(annotations string) func(*kube.AdmissionRequest) {
		return func(r *kube.AdmissionRequest) { r.Object.Raw = fmt.Appendf(nil, pod, annotations) }
	}
	many := ""
	for n := range 40 {
		many += fmt.Sprintf(`, "sidecar.istio.io/%d%s": ""`, n, strings.Repeat("x", 300))
	}
	for _, tt := range []struct {
		name     string
		change   func(*kube.AdmissionRequest)
		allowed  bool
		patched  bool
		message  string
		warnings int
	}{
		{"a Pod", raw(""), true, true, "", 0},
		{"out", raw(`"sidecar.istio.io/inject": "false"`), true, false, "", 0},
		{"wrong", raw(`"sidecar.istio.io/proxyCPU": "x"`), false, false, "the sidecar cannot be injected: annotation sidecar.istio.io/proxyCPU", 0},
		{"many warnings", raw(many[2:]), true, true, "", most},
		{"an update", func(r *kube.AdmissionRequest) { r.Operation = "UPDATE" }, true, false, "", 0},
		{"a deletion", func(r *kube.AdmissionRequest) { r.Operation, r.Object.Raw = "DELETE", nil }, true, false, "", 0},
		{"a text that a parser repeats", raw(`"sidecar.istio.io/userVolume": "` + strings.Repeat("{", 9000) + `"`), false, false, "the sidecar cannot be injected: annotation sidecar.istio.io/userVolume", 0},
		{"fields that a parser repeats", raw(`"sidecar.istio.io/userVolume": "{a: {` + wrongFields() + `}}"`), false, false, "annotation sidecar.istio.io/userVolume", 0},
		{"an eviction", func(r *kube.AdmissionRequest) { r.SubResource = "eviction" }, true, false, "", 0},
		{"another kind", func(r *kube.AdmissionRequest) { r.Kind.Kind = "Service" }, true, false, "", 0},
		{"a Pod of another group", func(r *kube.AdmissionRequest) { r.Kind.Group = "example.org" }, true, false, "", 0},
		{"nothing", func(r *kube.AdmissionRequest) { r.Object.Raw = nil }, false, false, "the Pod is no object", 0},
		{"null", func(r *kube.AdmissionRequest) { r.Object.Raw = []byte("null") }, false, false, "is empty", 0},
		{"kube-system", func(r *kube.AdmissionRequest) { r.Namespace = "kube-system" }, true, false, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := s.Review(t.Context(), request(tt.change))
			message := ""
			if got.Result != nil {
				message = got.Result.Message
			}
			if len(message) > longestReason+100 {
				t.Errorf("a message of %d bytes", len(message))
			}
			if got.Allowed != tt.allowed || (got.Patch != nil) != tt.patched || !strings.Contains(message, tt.message) || len(got.Warnings) != tt.warnings {
				t.Errorf("got %+v %s", got, message)
			}
			for _, w := range got.Warnings {
				if len(w) > longest {
					t.Errorf("a warning of %d bytes", len(w))
				}
			}
			if got.Patch != nil && !json.Valid(got.Patch) {
				t.Errorf("the patch is %s", got.Patch)
			}
		})
	}
}

// The namespace is that of the request, whatever the Pod says: layers of another one do not reach it.
func TestReviewedNamespace(t *testing.T) {
	var asked string
	s := &Source{Log: slog.New(slog.DiscardHandler), Layers: func(namespace string, labels map[string]string) ([]inject.Layer, error) {
		asked = fmt.Sprint(namespace, labels)
		return nil, nil
	}}
	if got := s.Review(t.Context(), request(func(r *kube.AdmissionRequest) { r.SubResource = "eviction" })); got == nil || !got.Allowed {
		t.Errorf("without a configuration an eviction is answered by %v", got)
	}
	if err := s.take(nil, true); err != nil {
		t.Fatal(err)
	}
	got := s.Review(t.Context(), request(func(r *kube.AdmissionRequest) {
		r.Object.Raw = []byte(`{"metadata": {"namespace": "other", "generateName": "p-", "labels": {"app": "a"}}, "spec": {"containers": [{"name": "app"}]}}`)
	}))
	if got == nil || got.Patch == nil || asked != "shopmap[app:a]" {
		t.Errorf("it asks for %s: %+v", asked, got)
	}
}

// If the ConfigMap has a fault or is deleted, the last configuration stays.
func TestLastSoundConfiguration(t *testing.T) {
	s := &Source{Namespace: "mesh", Name: "injection", Log: slog.New(slog.DiscardHandler)}
	event := func(data map[string]string) error {
		return s.event(kube.Only[*corev1.ConfigMap](kube.Event{Put: &corev1.ConfigMap{Data: data}}), true)
	}
	told := func(refused float64, said string) {
		t.Helper()
		if got := testutil.ToFloat64(s); got != refused || !strings.Contains(strings.Join(s.Lines(), "\n"), said) || said == "" && s.Lines() != nil {
			t.Errorf("refused is %v, want %v; the lines are %q, want %q", got, refused, s.Lines(), said)
		}
	}
	told(0, "there is no configuration yet")
	if err := s.event(kube.Only[*corev1.ConfigMap](kube.Event{List: true}), true); err == nil || s.Injector() != nil {
		t.Errorf("without a ConfigMap: %v, %v", err, s.Injector())
	}
	told(1, "ConfigMap mesh/injection: it is not there: no Pod can be injected")
	if err := event(map[string]string{"config": "image: a:1"}); err != nil {
		t.Fatal(err)
	}
	told(0, "")
	first := s.Injector()
	for _, data := range []map[string]string{
		{"config": "imagee: a:1"},
		{"config": "["},
		{"config": "discoveryAddress: x"},
		{"config": "interceptionMode: MAYBE"},
		{"config": "includeInboundPorts: all"},
		{"template": ""},
		{"template": "{{"},
		{"template": "spec: {containers: [{name: x, image: {{.Nothing}}}]}"},
	} {
		if err := event(data); err == nil || s.Injector() != first {
			t.Errorf("%v: %v, and it is another: %v", data, err, s.Injector() != first)
		}
		told(1, ": the last sound one is used")
	}
	if err := s.event(kube.Only[*corev1.ConfigMap](kube.Event{Gone: &corev1.ConfigMap{}}), true); err == nil || s.Injector() != first {
		t.Errorf("when it is gone: %v", err)
	}
	if err := event(map[string]string{"config": "nativeSidecar: false"}); err != nil || s.Injector() == first {
		t.Errorf("a sound one: %v", err)
	}
	told(0, "")
}

// The sidecars' domain is that of discovery, unless the configuration names another one; the log names the difference.
func TestDomain(t *testing.T) {
	for _, tt := range []struct {
		config, want string
		warns        bool
	}{
		{"", "corp.example", false},
		{"clusterDomain: ''", "corp.example", false},
		{"clusterDomain: Corp.Example.", "Corp.Example.", false},
		{"clusterDomain: cluster.local", "cluster.local", true},
	} {
		var log strings.Builder
		s := &Source{Domain: "corp.example", Log: slog.New(slog.NewTextHandler(&log, nil))}
		if err := s.take(map[string]string{"config": tt.config}, true); err != nil {
			t.Fatal(err)
		}
		patch := string(s.Review(t.Context(), request(func(*kube.AdmissionRequest) {})).Patch)
		if !strings.Contains(patch, "$(POD_NAMESPACE).svc."+tt.want+`"`) {
			t.Errorf("%q: the patch is %s", tt.config, patch)
		}
		if got := strings.Contains(log.String(), "clusterDomain=cluster.local domain=corp.example"); got != tt.warns {
			t.Errorf("%q: the log is %s", tt.config, &log)
		}
	}
	s := &Source{Domain: "corp.example", Log: slog.New(slog.DiscardHandler)}
	if err := s.take(map[string]string{"config": "clusterDomain: -corp"}, true); err == nil || !strings.Contains(err.Error(), `clusterDomain: is "-corp", want a DNS domain`) {
		t.Errorf("of a domain that is none: %v", err)
	}
}
