package inject_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/discovery/inject"
)

// A name that is close to one of Istio's is a warning with that name, as an annotation and as a label.
func TestMisspeltNames(t *testing.T) {
	i := injector(t, "")
	for _, tt := range []struct{ metadata, want string }{
		{"annotations: {sidecar.istoi.io/proxyCPU: 10m}", "annotation sidecar.istoi.io/proxyCPU: is not known here, and has no effect; did you mean sidecar.istio.io/proxyCPU?"},
		{"annotations: {istio.io/excludeInboundPorts: '80'}", "did you mean traffic.sidecar.istio.io/excludeInboundPorts?"},
		{"annotations: {sidecar.istio.io/proxycpu: 10m}", "did you mean sidecar.istio.io/proxyCPU?"},
		{"annotations: {sidecar.istio.io/injected: 'false'}", "did you mean sidecar.istio.io/inject?"},
		{"labels: {sidecar.istio.io/injected: 'false'}", "label sidecar.istio.io/injected: is not known here, and has no effect; did you mean sidecar.istio.io/inject?"},
		{"labels: {sidecar.istio.io/proxyCPU: 10m}", "label sidecar.istio.io/proxyCPU: has no effect: it is an annotation"},
		{"labels: {istio.io/dataplane-mode: ambient}", "label istio.io/dataplane-mode: has no effect"},
		{"labels: {istio.io/dataplane-mode: none}", ""},
		{"annotations: {example.org/proxyCPU: x, networking.istio.io/exportTo: x, example.org/port: x}, labels: {app: x, istio.io/rev: default, topology.istio.io/network: n}", ""},
		{"annotations: {\"sidecar.istio.io/a\\nb\": x}", "annotation sidecar.istio.io/a?b: is not known"},
	} {
		r, err := i.Pod(inject.Namespace{Name: "shop"}, parse(t, "metadata: {name: p, "+tt.metadata+"}\nspec: {"+app+"}"), nil)
		found := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, tt.want) })
		if err != nil || r.Skipped != "" || found != (len(r.Warnings) > 0) || (tt.want == "") != (len(r.Warnings) == 0) {
			t.Errorf("%s: the warnings are %q, want %q (%q, %v)", tt.metadata, r.Warnings, tt.want, r.Skipped, err)
		}
	}
}

// A Pod with very many wrong names costs a bounded number of warnings, each of which looks for a near name.
func TestManyWrongNames(t *testing.T) {
	annotations, config := map[string]any{}, "{"
	for n := range 5000 {
		annotations[fmt.Sprint("sidecar.istio.io/x", n)] = ""
		config += fmt.Sprintf("x%d: 1, ", n)
	}
	annotations["proxy.istio.io/config"] = config + "}"
	given := map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": parse(t, app)}
	r, err := injector(t, "").Pod(inject.Namespace{Name: "shop"}, given, nil)
	if err != nil || len(r.Warnings) > 50 || r.Warnings[len(r.Warnings)-1] != fmt.Sprintf("and %d more", 10000-len(r.Warnings)+1) {
		t.Errorf("there are %d warnings, the last is %q: %v", len(r.Warnings), r.Warnings[max(0, len(r.Warnings)-1)], err)
	}
}
