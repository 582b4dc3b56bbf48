package inject_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery/inject"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// webhooks returns those of the MutatingWebhookConfiguration that deploy/kubernetes has.
func webhooks(t *testing.T) []admissionv1.MutatingWebhook {
	t.Helper()
	text, err := os.ReadFile("../../deploy/kubernetes/discovery/webhooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var c admissionv1.MutatingWebhookConfiguration
		if err := yaml.Unmarshal([]byte(document), &c); err != nil {
			t.Fatal(err)
		}
		if c.Kind == "MutatingWebhookConfiguration" {
			return c.Webhooks
		}
	}
	t.Fatal("there is no MutatingWebhookConfiguration")
	return nil
}

// The API server asks about a Pod once, if Istio's chart would have it asked, and never otherwise.
func TestSelectionOfTheWebhooks(t *testing.T) {
	all := webhooks(t)
	matches := func(s *metav1.LabelSelector, of map[string]string) bool {
		selector, err := metav1.LabelSelectorAsSelector(s)
		if err != nil {
			t.Fatal(err)
		}
		return selector.Matches(labels.Set(of))
	}
	asked := func(name string, ns, pod map[string]string) (by []string) {
		ns["kubernetes.io/metadata.name"] = name
		for _, w := range all {
			if matches(w.NamespaceSelector, ns) && matches(w.ObjectSelector, pod) {
				by = append(by, w.Name)
			}
		}
		return by
	}
	for _, c := range selection(t) {
		by := asked("shop", c.Namespace, c.Pod)
		if (len(by) == 1) != c.Injected || len(by) > 1 {
			t.Errorf("namespace %v, Pod %v: the API server asks %q, want one that asks: %v", c.Namespace, c.Pod, by, c.Injected)
		}
		for _, never := range []string{"istio-system", "kube-system", "kube-public", "kube-node-lease"} {
			if by := asked(never, c.Namespace, c.Pod); len(by) > 0 {
				t.Errorf("namespace %s: the API server asks %q", never, by)
			}
		}
	}
}

func selection(t *testing.T) []lab.Selection {
	t.Helper()
	out, err := lab.Selections()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The injector agrees with the selectors where a manifest has the labels of the namespace; a namespace without such labels
// is injected by the command that names it. A Pod that the API server asks about has been selected.
func TestSelectionOfTheInjector(t *testing.T) {
	i := injector(t, "")
	given := func(labels map[string]string) map[string]any {
		o := parse(t, "metadata: {name: p}\nspec: {"+app+"}")
		all := map[string]any{}
		for name, value := range labels {
			all[name] = value
		}
		o["metadata"].(map[string]any)["labels"] = all
		return o
	}
	for _, c := range selection(t) {
		r, err := i.Pod(inject.Namespace{Name: "shop", Labels: c.Namespace}, given(c.Pod), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := c.Injected || len(c.Namespace) == 0 && len(c.Pod) == 0
		if got := r.Skipped == ""; got != want {
			t.Errorf("namespace %v, Pod %v: injected %v (%s), want %v", c.Namespace, c.Pod, got, r.Skipped, want)
		}
		if !c.Injected {
			continue
		}
		r, err = i.Pod(inject.Namespace{Name: "shop", Selected: true}, given(c.Pod), nil)
		if err != nil || r.Skipped != "" {
			t.Errorf("namespace %v, Pod %v: the API server asks, and it is skipped: %s, %v", c.Namespace, c.Pod, r.Skipped, err)
		}
		other := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "label istio.io/rev: is canary") })
		if other != (c.Pod["istio.io/rev"] == "canary") {
			t.Errorf("namespace %v, Pod %v: the warnings are %q", c.Namespace, c.Pod, r.Warnings)
		}
	}
}
