//go:build kube

package kube

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// laterWebhook returns a webhook of another project's, whose name comes after ours, and which adds a container with a probe to
// Pods with the label late.
func laterWebhook(t *testing.T) string {
	t.Helper()
	authority, err := lab.NewAuthority("later")
	check(t, err)
	identity, err := authority.IssueWith("localhost", 7, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	check(t, err)
	pair, err := tls.X509KeyPair(identity.Chain, identity.Key)
	check(t, err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	check(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		kind := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if !strings.Contains(string(review.Request.Object.Raw), `"name":"late"`) {
			review.Response.PatchType = &kind
			review.Response.Patch = []byte(`[{"op": "add", "path": "/spec/containers/-", "value":
				{"name": "late", "image": "example/late:1", "readinessProbe": {"httpGet": {"path": "/late", "port": 81}}}}]`)
		}
		_ = json.NewEncoder(out).Encode(review) // the API server has gone
	})}
	go server.Serve(listener) //nolint:errcheck // it is closed
	t.Cleanup(func() { server.Close() })
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: zz-later}
webhooks:
- name: later.example.org
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://%s/", caBundle: %s}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  objectSelector: {matchLabels: {late: "true"}}`, listener.Addr(), base64.StdEncoding.EncodeToString(authority.PEM()))
}

// added reports whether the later webhook has added its container to a Pod.
func added(o *unstructured.Unstructured) bool {
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", "containers")
	return slices.ContainsFunc(list, func(c any) bool { return c.(map[string]any)["name"] == "late" })
}

// late shows that the probe of the container that the later webhook has added is led to the agent, beside those before it.
func late(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	text, err := json.Marshal(o.Object["spec"])
	check(t, err)
	for _, want := range []string{
		`"path":"/app-health/late/readyz"`, `"path":"/app-health/app/livez"`,
		`\"/app-health/late/readyz\":{\"httpGet\":{\"path\":\"/late\",\"port\":81`, `\"/app-health/app/livez\":{\"httpGet\":{\"path\":\"/live\",\"port\":80`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the Pod has no %s:\n%s", want, text)
		}
	}
}
