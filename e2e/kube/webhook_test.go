//go:build kube

package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/webhook"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// keeperRights are all that the keeper of the certificate needs.
var keeperRights = allow("default", "webhook",
	may("create", "", "secrets"), mayNamed("certificate", "list, watch, update", "", "secrets")) + "\n---\n" +
	allow("", "webhook", mayNamed("ours", "list, watch, patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations, validatingwebhookconfigurations"))

// webhookOf is a configuration of either kind with one webhook for ConfigMaps, and one of another Service.
func webhookOf(kind, url string) string {
	return fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: %s
metadata: {name: ours}
webhooks:
- name: a.pilotlight.test
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: "%s"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
- name: b.pilotlight.test
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {namespace: default, name: somebody}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]`, kind, url)
}

// keeping is a keeper that runs, and its log.
type keeping struct {
	*webhook.Keeper
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *keeping) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *keeping) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// keep runs a keeper at a clock until the returned function is called.
func (c *cluster) keep(now func() time.Time) (*keeping, func()) {
	c.t.Helper()
	r := &keeping{}
	r.Keeper = &webhook.Keeper{
		Connect: func() (*kube.Client, error) { return kube.New(c.config("discovery"), "test") },
		Service: webhook.Service{Namespace: "default", Name: "discovery"}, Secret: "certificate", Hosts: []string{"127.0.0.1"},
		Mutating: "ours", Validating: "ours", Log: slog.New(slog.NewTextHandler(r, nil)), Now: now,
	}
	ctx, stop := context.WithCancel(c.t.Context())
	done := make(chan error)
	go func() { done <- r.Run(ctx) }()
	end := sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
		if strings.Contains(r.log(), "PRIVATE") {
			c.t.Error("a key is in the log")
		}
		if c.t.Failed() {
			c.t.Log(r.log())
		}
	})
	c.t.Cleanup(end)
	return r, end
}

// bundles are the caBundles of both configurations, by kind and webhook.
func (h hand) bundles() (map[string]string, error) {
	out := map[string]string{}
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		o := h.parse("apiVersion: admissionregistration.k8s.io/v1\nkind: " + kind + "\nmetadata: {name: ours}")
		found, err := h.resource(o).Get(h.t.Context(), "ours", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		webhooks, _, _ := unstructured.NestedSlice(found.Object, "webhooks")
		for _, w := range webhooks {
			name := w.(map[string]any)["name"].(string)
			bundle, _, _ := unstructured.NestedString(w.(map[string]any), "clientConfig", "caBundle")
			out[kind[:1]+name[:1]] = bundle
		}
	}
	return out, nil
}

func (h hand) secret(name string) (*unstructured.Unstructured, error) {
	return h.resource(h.parse("apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: default}")).Get(h.t.Context(), name, metav1.GetOptions{})
}

// spread waits until both configurations have the roots of the Secret, and nobody else's webhook has any.
func (h hand) spread() (root string) {
	h.t.Helper()
	check(h.t, lab.Eventually(30*time.Second, func() error {
		found, err := h.bundles()
		if err != nil {
			return err
		}
		secret, err := h.secret("certificate")
		if err != nil {
			return err
		}
		root, _, _ = unstructured.NestedString(secret.Object, "data", "ca.crt")
		if found["Ma"] != root || found["Va"] != root || found["Mb"]+found["Vb"] != "" || root == "" {
			return fmt.Errorf("the roots are %.60q, the bundles %.60q", root, found)
		}
		return nil
	}))
	return root
}

// Two replicas agree on one certificate, write its roots where they are missing, and the API server calls them by it. A bundle
// that somebody resets is mended; a certificate that ages is replaced, and no call fails; a Secret of somebody else, or a broken
// one, is left alone. All of it with the rights that the documentation names.
func TestWebhookCertificate(t *testing.T) {
	c := startCluster(t)
	hand := c.hand()
	hand.apply(keeperRights)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	url := "https://" + l.Addr().String() + "/validate"
	hand.apply(webhookOf("MutatingWebhookConfiguration", url) + "\n---\n" + webhookOf("ValidatingWebhookConfiguration", url))

	var mu sync.Mutex
	ahead := time.Duration(0)
	now := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(ahead)
	}
	first, stopFirst := c.keep(now)
	second, stopSecond := c.keep(now)
	root := hand.spread()
	check(t, lab.Eventually(30*time.Second, func() error { // the other one may write the roots first
		if made := strings.Count(first.log()+second.log(), "made a certificate"); made != 1 {
			return fmt.Errorf("%d certificates were made, want 1", made)
		}
		return nil
	}))
	var calls atomic.Int64
	handler := webhook.NewHandler(map[string]webhook.Review{"/validate": func(_ context.Context, r *kube.AdmissionRequest) *kube.AdmissionResponse {
		calls.Add(1)
		return &kube.AdmissionResponse{Allowed: r.Name != "bad", Result: &metav1.Status{Message: "it is bad"}}
	}}, slog.New(slog.DiscardHandler))
	server := &http.Server{Handler: handler}
	go server.Serve(tls.NewListener(l, second.TLS())) //nolint:errcheck // it is closed
	t.Cleanup(func() { server.Close() })
	maps := hand.resource(hand.parse("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}"))
	create := func(name string) error {
		_, err := maps.Create(t.Context(), hand.parse("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+name+", namespace: default}"), metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	// The API server calls both webhooks once its caches have both configurations with their roots.
	check(t, lab.Eventually(30*time.Second, func() error {
		before := calls.Load()
		if err := create("good"); err != nil || calls.Load() != before+2 {
			return fmt.Errorf("after %d calls the good one is answered by %v", calls.Load()-before, err)
		}
		return nil
	}))
	if err := create("bad"); err == nil || !strings.Contains(err.Error(), "it is bad") {
		t.Errorf("the bad one is answered by %v", err)
	}

	for _, bundle := range []string{"", base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nTUlJ\n-----END CERTIFICATE-----\n"))} {
		o := hand.parse("apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: ours}")
		patch := fmt.Sprintf(`[{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": %q}]`, bundle)
		if _, err := hand.resource(o).Patch(t.Context(), "ours", "application/json-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil && bundle == "" {
			t.Fatal(err)
		}
		hand.spread()
	}

	// A Secret that is lost is made again, with another certificate, and the API server calls on.
	hand.delete("apiVersion: v1\nkind: Secret\nmetadata: {name: certificate, namespace: default}")
	check(t, lab.Eventually(30*time.Second, func() error {
		if root == hand.spread() {
			return fmt.Errorf("the root is the one of the lost Secret")
		}
		return create("good")
	}))
	root = hand.spread()

	mu.Lock()
	ahead = 61 * 24 * time.Hour
	mu.Unlock()
	stopFirst() // the next one looks at once; the second after a minute at most, or when the Secret changes
	third, stopThird := c.keep(now)
	check(t, lab.Eventually(30*time.Second, func() error {
		if got := hand.spread(); got == root {
			return fmt.Errorf("the root is the old one")
		}
		return nil
	}))
	check(t, lab.Eventually(30*time.Second, func() error {
		if !strings.Contains(third.log()+second.log(), "the last one ends") {
			return errors.New("it is not said why there is a new certificate")
		}
		return nil
	}))
	if err := create("good"); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	if err := create("bad"); err == nil || !strings.Contains(err.Error(), "it is bad") {
		t.Errorf("after the rotation the bad one is answered by %v", err)
	}
	stopThird()

	// A broken Secret is logged and kept, and the last good one stays in use.
	secrets := hand.resource(hand.parse("apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: default}"))
	for _, spoilt := range []struct{ patch, want string }{
		{`{"data": {"tls.key": "eA=="}}`, "is broken"},
		{`{"metadata": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}}`, "is left alone"},
	} {
		_, err := secrets.Patch(t.Context(), "certificate", "application/merge-patch+json", []byte(spoilt.patch), metav1.PatchOptions{})
		check(t, err)
		check(t, lab.Eventually(30*time.Second, func() error {
			if !strings.Contains(second.log(), spoilt.want) {
				return fmt.Errorf("the log does not say %q", spoilt.want)
			}
			return nil
		}))
		if err := create("good"); err != nil {
			t.Errorf("with a Secret that %s: %v", spoilt.want, err)
		}
	}
	if found, err := hand.secret("certificate"); err != nil || found.GetLabels()["app.kubernetes.io/managed-by"] != "somebody" {
		t.Errorf("the Secret of somebody else: %v", err)
	}
	stopSecond()
}
