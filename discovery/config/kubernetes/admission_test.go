package kubernetes

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Errors refuse an object, with their fields; warnings are shown. An object that was stored before with an error can
// still be labelled and deleted.
func TestReview(t *testing.T) {
	const head = "apiVersion: networking.istio.io/v1\nkind: Sidecar\n"
	const named = head + "metadata: {name: a, namespace: shop}\n"
	const sound, wrong = "spec: {egress: [{hosts: ['./*']}]}", "spec: {egress: [{hosts: ['nonsense']}]}"
	const policy = "apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: a, namespace: shop}\nspec: {jwtRules: [{issuer: a}]}"
	const doubtful = "spec: {egress: [{port: {number: 80, name: http, protocol: HTTP, targetPort: 81}, hosts: ['./*']}]}"
	for name, test := range map[string]struct {
		object, before, subresource string
		refused                     string // the beginning of the message; empty if it is admitted
		warnings                    int
	}{
		"a policy without keys":      {object: policy, refused: "spec.jwtRules[0].jwks: is missing"},
		"a policy, as it was before": {object: policy, before: policy, warnings: 1},
		"a sound policy":             {object: "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: a, namespace: shop}\nspec: {}"},
		"a wrong policy": {
			object:  "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: a, namespace: shop}\nspec: {action: DENY, rules: [{when: [{key: source.ipp, values: [a]}]}]}",
			refused: `spec.rules[0].when[0].key: is "source.ipp"`,
		},
		"telemetry":                   {object: "apiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: a, namespace: shop}\nspec: {}", warnings: 1},
		"a plugin":                    {object: "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: a, namespace: shop}\nspec: {url: x}", warnings: 1},
		"sound":                       {object: named + sound},
		"doubtful":                    {object: named + doubtful, warnings: 1},
		"wrong":                       {object: named + wrong, refused: `spec.egress[0].hosts[0]: is "nonsense"`},
		"changed to be wrong":         {object: named + wrong, before: named + sound, refused: "spec.egress[0].hosts[0]: "},
		"changed, and wrong as ever":  {object: named + "spec: {egress: [{hosts: ['nonsense', './*']}]}", before: named + wrong, refused: "spec.egress[0].hosts[0]: "},
		"labelled, and wrong as ever": {object: head + "metadata: {name: a, namespace: shop, labels: {a: b}}\n" + wrong, before: named + wrong, warnings: 1},
		"wrong, and being deleted":    {object: head + "metadata: {name: a, namespace: shop, deletionTimestamp: '2026-01-31T12:00:00Z'}\n" + wrong, before: named + sound, warnings: 1},
		"deleted":                     {before: named + wrong},
		"its status":                  {object: named + wrong, before: named + wrong, subresource: "status"},
		"a name that is made later":   {object: head + "metadata: {generateName: a-, namespace: shop}\n" + sound},
		"no namespace yet":            {object: head + "metadata: {name: a}\n" + sound},
		"without a specification":     {object: named, refused: "spec: says nothing"},
		"many faults":                 {object: named + "spec: {egress: [{hosts: [" + strings.Repeat("'nonsense', ", 500) + "]}]}", refused: "spec.egress[0].hosts[0]: "},
		"no object":                   {object: "[]", refused: "cannot be read: "},
	} {
		t.Run(name, func(t *testing.T) {
			raw := func(text string) (out runtime.RawExtension) {
				if text != "" {
					data, err := yaml.YAMLToJSON([]byte(text))
					if err != nil {
						t.Fatal(err)
					}
					out.Raw = data
				}
				return out
			}
			got := Reviewer{}.Review(t.Context(), &kube.AdmissionRequest{Namespace: "shop", SubResource: test.subresource, Object: raw(test.object), OldObject: raw(test.before)})
			if got.Allowed != (test.refused == "") || len(got.Warnings) != test.warnings {
				t.Fatalf("it is answered by %+v, %+v", got, got.Result)
			}
			if !got.Allowed {
				if r := got.Result; !strings.HasPrefix(r.Message, test.refused) || len(r.Message) > maxMessage || len(r.Details.Causes) == 0 || len(r.Details.Causes) > maxDetails {
					t.Errorf("it is refused with %d causes by %s", len(r.Details.Causes), r.Message)
				}
			}
		})
	}
}

// A large object with a fault in each of its fields is answered, by the first of them, and not at all once nobody waits.
func TestReviewOfALargeObject(t *testing.T) {
	hosts := strings.TrimSuffix(strings.Repeat(`"a.example",`, 60_000), ",")
	raw := []byte(`{"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"name": "a", "namespace": "b"},
		"spec": {"hosts": [` + hosts + `], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}}`)
	request := &kube.AdmissionRequest{Object: runtime.RawExtension{Raw: raw}}
	answer := Reviewer{}.Review(t.Context(), request)
	if answer.Allowed || len(answer.Result.Message) > 10<<10 || len(answer.Result.Details.Causes) > maxDetails {
		t.Errorf("got %.300v", answer)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if answer := (Reviewer{}).Review(ctx, request); answer.Allowed || !strings.Contains(answer.Result.Message, "is not judged") {
		t.Errorf("got %.300v", answer)
	}
}

// The ConfigMap of the mesh's settings is judged before it is written: a mistyped key or field must not open what
// MeshConfig closes at the next restart.
func TestReviewOfSettings(t *testing.T) {
	configMap := func(data string) []byte {
		if data == "" {
			return nil
		}
		return []byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mesh", "namespace": "istio-system"}, "data": ` + data + `}`)
	}
	const good, bad = `{"mesh": "trustDomain: a.example"}`, `{"mesh": "trustDomian: a.example"}`
	for what, test := range map[string]struct{ before, now, want string }{
		"good":                  {"", good, ""},
		"a typing error":        {good, bad, `data.mesh: line 1: trustDomian unknown field "trustDomian", did you mean "trustDomain"?`},
		"a new one":             {"", bad, "data.mesh: line 1"},
		"it was there before":   {bad, bad, ""},
		"a mistyped key":        {good, `{"mehs": "{}"}`, "data.mesh: is not there, want a MeshConfig"},
		"it is emptied":         {good, `{"mesh": ""}`, "is empty, want a MeshConfig"},
		"the networks":          {good, `{"mesh": "{}", "meshNetworks": "networks: 7"}`, "data.meshNetworks: line 1"},
		"networks that go away": {`{"mesh": "{}", "meshNetworks": "networks: {}"}`, `{"mesh": "{}"}`, ""},
	} {
		got := Reviewer{}.Review(t.Context(), &kube.AdmissionRequest{
			Kind:   metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			Object: runtime.RawExtension{Raw: configMap(test.now)}, OldObject: runtime.RawExtension{Raw: configMap(test.before)},
		})
		if got.Allowed != (test.want == "") || !got.Allowed && !strings.Contains(got.Result.Message, test.want) {
			t.Errorf("%s: allowed %t, %+v, want %q", what, got.Allowed, got.Result, test.want)
		}
	}
}
