//go:build kube

package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// policyOf is a policy with an error that the API server does not see.
func policyOf(name string) string {
	return "apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: " + name + ", namespace: default}\nspec: {jwtRules: [{issuer: a, jwks: \"{}\"}]}"
}

const keyless = "spec.jwtRules[0].jwks: has no key that Envoy knows"

// named waits until a policy that was stored before discovery came is reported: at the object, by an Event, in the log and in
// /ready?verbose, as long as it exists.
func (w *world) named(policy string) {
	w.t.Helper()
	o := w.hand.parse(policyOf(policy))
	check(w.t, lab.Eventually(time.Minute, func() error {
		found, err := w.hand.resource(o).Get(w.t.Context(), policy, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := conditionOf(found); !strings.HasPrefix(got, "False Refused 1 "+keyless) {
			return fmt.Errorf("the policy's condition is %q", got)
		}
		if events := w.hand.events(policy); !slices.ContainsFunc(events, func(e string) bool { return strings.HasPrefix(e, "Refused "+keyless) }) {
			return fmt.Errorf("its Events are %q", events)
		}
		page, err := lab.Get("http://" + w.discovery.HTTP + "/ready?verbose")
		if err == nil && !strings.Contains(page, "RequestAuthentication/default/"+policy+": "+strings.Replace(keyless, ": ", " ", 1)) {
			err = fmt.Errorf("/ready?verbose is %s", page)
		}
		return err
	}))
	logged(w.t, w.discovery, "record=RequestAuthentication/default/"+policy)
}

// refusesPolicies shows that the webhook refuses policies with an error, and warns about kinds that have no effect.
func (w *world) refusesPolicies() {
	w.t.Helper()
	warnings := &heard{}
	config := w.config("admin")
	config.WarningHandler = warnings
	client, err := dynamic.NewForConfig(config)
	check(w.t, err)
	listening := w.hand
	listening.client = client
	dry := func(text string) error {
		o := listening.parse(text)
		_, err := listening.resource(o).Create(w.t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	check(w.t, lab.Eventually(time.Minute, func() error {
		if err := dry(policyOf("refused")); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "has no key that Envoy knows") {
			return fmt.Errorf("a policy with an error is answered by %v", err)
		}
		return nil
	}))
	for _, text := range []string{
		"apiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: ignored, namespace: default}\nspec: {}",
		"apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: ignored, namespace: default}\nspec: {url: 'oci://x'}",
		"apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: ignored, namespace: default}\nspec: {}",
	} {
		check(w.t, lab.Eventually(time.Minute, func() error { // the webhook has 5 s, and failurePolicy Ignore
			warnings.take()
			if err := dry(text); err != nil {
				return err
			}
			if got := warnings.take(); len(got) != 1 || !strings.Contains(got[0], "is not supported, ignored") {
				return fmt.Errorf("about %s there is said %q", text, got)
			}
			return nil
		}))
	}
}

// abused shows what an attacker with discovery's token may not do, although RBAC alone would allow it: discovery itself has
// made its own Secret and Lease by the same rights.
func (c *cluster) abused(own *rest.Config) {
	c.t.Helper()
	client, err := dynamic.NewForConfig(own)
	check(c.t, err)
	stolen := hand{c.t, client}
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: %s, namespace: istio-system, annotations: {kubernetes.io/service-account.name: default}}\ntype: %s"
	for name, text := range map[string]string{
		"a token of another account":  fmt.Sprintf(secret, "token", "kubernetes.io/service-account-token"),
		"a token by its own name":     fmt.Sprintf(secret, "discovery-webhook", "kubernetes.io/service-account-token"),
		"another Secret":              fmt.Sprintf(secret, "other", "Opaque"),
		"a Secret whose name is made": "apiVersion: v1\nkind: Secret\nmetadata: {generateName: discovery-webhook, namespace: istio-system}",
		"another ConfigMap":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: default}",
		"another Lease":               "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: other, namespace: istio-system}",
	} {
		o := stolen.parse(text)
		check(c.t, lab.Eventually(30*time.Second, func() error { // the API server compiles new policies once a second
			_, err := stolen.resource(o).Create(c.t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			text := fmt.Sprint(err)
			if !strings.Contains(text, "pilotlight-discovery") || !strings.Contains(text, "discovery may ") {
				return fmt.Errorf("%s is answered by %s, want a refusal by the policy", name, text)
			}
			return nil
		}))
	}
	configuration := stolen.parse("apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: pilotlight-injection}")
	patch := func(patch string) error {
		_, err := stolen.resource(configuration).Patch(c.t.Context(), "pilotlight-injection", types.JSONPatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	for name, text := range map[string]string{
		"rules for every object":  `[{"op": "replace", "path": "/webhooks/0/rules", "value": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]}]`,
		"another program":         `[{"op": "replace", "path": "/webhooks/0/clientConfig", "value": {"url": "https://evil.test/"}}]`,
		"another Service":         `[{"op": "replace", "path": "/webhooks/0/clientConfig/service/name", "value": "evil"}]`,
		"every namespace":         `[{"op": "replace", "path": "/webhooks/0/namespaceSelector", "value": {}}]`,
		"every Pod":               `[{"op": "remove", "path": "/webhooks/0/objectSelector"}]`,
		"no webhook":              `[{"op": "remove", "path": "/webhooks/0"}]`,
		"a webhook that may fail": `[{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]`,
		"a condition":             `[{"op": "add", "path": "/webhooks/0/matchConditions", "value": [{"name": "never", "expression": "false"}]}]`,
		"an owner that is gone":   `[{"op": "add", "path": "/metadata/ownerReferences", "value": [{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "1"}]}]`,
	} {
		if err := patch(text); err == nil || !strings.Contains(err.Error(), "discovery may change the field caBundle") {
			c.t.Errorf("%s is answered by %v, want a refusal by the policy", name, err)
		}
	}
	check(c.t, patch(`[{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]`))
	others := c.hand()
	o := others.parse(fmt.Sprintf(secret, "of-another", "Opaque"))
	_, err = others.resource(o).Create(c.t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	check(c.t, err)
	if found, err := others.secretOf("discovery-webhook"); err != nil || found == nil {
		c.t.Errorf("discovery has not made its own Secret: %v", errors.Join(err))
	}
}

func (h hand) secretOf(name string) (*unstructured.Unstructured, error) {
	o := h.parse("apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + ", namespace: " + system + "}")
	return h.resource(o).Get(h.t.Context(), name, metav1.GetOptions{})
}
