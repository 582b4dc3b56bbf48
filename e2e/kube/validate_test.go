//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// heard keeps the warnings of an API server.
type heard struct {
	mu   sync.Mutex
	text []string
}

func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, text)
}

func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.text = nil }()
	return slices.Clone(h.text)
}

// The API server asks discovery about each Istio object: a wrong one is refused, with its field; a doubtful one is taken, with a
// warning. What was stored before stays changeable but for its specification. While discovery is away, failurePolicy decides.
func TestValidatingWebhook(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	hand := c.hand()
	hand.apply(rights)
	hand.apply(keeperRights)
	hand.apply(istioDefinitions(t))
	hand.apply(rule("stored", "echo_", "x"))
	address := "127.0.0.1:" + port(t)
	policy := func(failure string) {
		hand.apply(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: ours}
webhooks:
- name: validate.pilotlight.io
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: %s
  timeoutSeconds: 30 # failurePolicy Ignore lets pass what is not answered by then
  clientConfig: {url: "https://%s/validate"}
  rules: [{apiGroups: [networking.istio.io], apiVersions: ["*"], operations: [CREATE, UPDATE], resources: ["*"]}]`, failure, address))
	}
	policy("Ignore")
	l := lab.New(t.TempDir())
	files := filepath.Join(l.Dir, "none")
	check(t, os.Mkdir(files, 0o755))
	d, err := l.Discovery(files, "--kubernetesConfig", "--kubeconfig", c.kubeconfig("discovery"), "--kubeContext", "test", "--webhookAddr", address,
		"--validatingWebhookConfiguration", "ours", "--webhookService", "default/discovery", "--webhookSecret", "certificate", "--webhookHosts", "127.0.0.1")
	check(t, err)
	t.Cleanup(func() {
		if d.Stop(stopLimit); t.Failed() {
			t.Logf("discovery:\n%s", tail(d.Log()))
		}
	})
	warnings := &heard{}
	config := c.config("admin")
	config.WarningHandler = warnings
	own, err := dynamic.NewForConfig(config)
	check(t, err)
	listening := hand
	listening.client = own
	apply := func(text string, dry ...string) error {
		o := hand.parse(text)
		_, err := listening.resource(o).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: dry})
		return err
	}
	check(t, lab.Eventually(time.Minute, func() error { // the roots are written, and taken up
		if err := apply(rule("wrong", "echo_", "x"), metav1.DryRunAll); !apierrors.IsInvalid(err) { // once stored, it would be let through
			return fmt.Errorf("a wrong object is answered by %v", err)
		}
		return nil
	}))
	var status apierrors.APIStatus
	if err := apply(rule("wrong", "echo_", "x")); !errors.As(err, &status) || !strings.Contains(err.Error(), `spec.hosts[0]: is "echo_"`) ||
		status.Status().Details == nil || len(status.Status().Details.Causes) == 0 || status.Status().Details.Causes[0].Field != "spec.hosts[0]" {
		t.Errorf("a wrong object is answered by %v", err)
	}
	warnings.take()
	check(t, apply(entry("sound")))
	if got := warnings.take(); len(got) > 0 {
		t.Errorf("about a sound object there is said %q", got)
	}
	check(t, apply(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: doubtful, namespace: default}
spec: {host: sound.test, trafficPolicy: {tunnel: {targetHost: a, targetPort: 80}}}`))
	if got := strings.Join(warnings.take(), "\n"); !strings.Contains(got, "spec.trafficPolicy.tunnel: ") || strings.Contains(got, "\n") {
		t.Errorf("about a doubtful object there is said %q", got)
	}
	check(t, apply(strings.Replace(rule("stored", "echo_", "x"), "namespace:", "labels: {a: b}, namespace:", 1)))
	if got := warnings.take(); len(got) != 1 || !strings.Contains(got[0], "is refused by discovery: spec.hosts[0]") {
		t.Errorf("about an object that was stored before there is said %q", got)
	}
	if err := apply(rule("stored", "echo_", "z")); !apierrors.IsInvalid(err) {
		t.Errorf("a change of it is answered by %v", err)
	}
	hand.delete(rule("stored", "echo_", "x"))

	d.Signal(syscall.SIGKILL)
	<-d.Done()
	check(t, hand.try(func(context.Context) error { return apply(rule("late", "echo_", "x")) }))
	policy("Fail")
	check(t, lab.Eventually(stopLimit, func() error {
		if err := apply(rule("later", "echo_", "x")); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Errorf("with failurePolicy Fail it is answered by %v", err)
		}
		return nil
	}))
}
