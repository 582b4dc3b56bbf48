package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Reviews are counted by what became of them, and no caller can add a label.
func TestReviewsAreCounted(t *testing.T) {
	answers := map[string]*kube.AdmissionResponse{
		"allowed": {Allowed: true}, "patched": {Allowed: true, Patch: []byte("[]")},
		"skipped": {Allowed: true, AuditAnnotations: map[string]string{Skipped: "why"}}, "refused": {}, "unanswered": nil,
	}
	h := NewHandler(map[string]Review{"/inject": func(_ context.Context, r *kube.AdmissionRequest) *kube.AdmissionResponse {
		return answers[r.Name]
	}}, slog.New(slog.DiscardHandler))
	ask := func(path, body string) {
		request := httptest.NewRequest("POST", path, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(httptest.NewRecorder(), request)
	}
	for name := range answers {
		ask("/inject", strings.Replace(review, "web", name, 1))
	}
	ask("/inject", "garbage")
	for _, path := range []string{"/a", "/b", "/inject/", "/\xff"} {
		ask(path, review)
	}
	want := `
# HELP pilotlight_webhook_reviews_total Admission requests, by path and outcome: allowed, patched, skipped, refused; unanswered, for which failurePolicy decides; invalid, which were no reviews.
# TYPE pilotlight_webhook_reviews_total counter
pilotlight_webhook_reviews_total{outcome="allowed",path="/inject"} 1
pilotlight_webhook_reviews_total{outcome="invalid",path="/inject"} 1
pilotlight_webhook_reviews_total{outcome="invalid",path="other"} 4
pilotlight_webhook_reviews_total{outcome="patched",path="/inject"} 1
pilotlight_webhook_reviews_total{outcome="refused",path="/inject"} 1
pilotlight_webhook_reviews_total{outcome="skipped",path="/inject"} 1
pilotlight_webhook_reviews_total{outcome="unanswered",path="/inject"} 1
`
	if err := testutil.CollectAndCompare(h, strings.NewReader(want), "pilotlight_webhook_reviews_total"); err != nil {
		t.Error(err)
	}
	if series := testutil.CollectAndCount(h, "pilotlight_webhook_review_seconds"); series != 2 {
		t.Errorf("there are %d durations, want one for each of 2 paths", series)
	}
}

// The metrics of the certificate tell when it ends, and whether it is looked after; the lines tell why not.
func TestKeeperTellsItsState(t *testing.T) {
	k := &Keeper{Service: Service{"mesh", "discovery", "cluster.local"}, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return start }}
	u := &upkeep{Keeper: k}
	told := func(metrics string, lines ...string) {
		t.Helper()
		names := []string{"pilotlight_webhook_certificate_expiry_timestamp_seconds", "pilotlight_webhook_certificate_kept", "pilotlight_webhook_bundle_writes_total"}
		out, err := testutil.CollectAndFormat(k, expfmt.TypeTextPlain, names...)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			if !strings.HasPrefix(line, "#") {
				got = append(got, strings.TrimPrefix(strings.TrimSpace(line), "pilotlight_webhook_"))
			}
		}
		if strings.Join(got, ", ") != metrics {
			t.Errorf("the metrics are %q, want %q", got, metrics)
		}
		if got := k.Lines(); !slices.Equal(got, lines) || k.Serves() != strings.Contains(metrics, "expiry") {
			t.Errorf("the lines are %q, want %q; there is one to serve: %v", got, lines, k.Serves())
		}
	}
	told("certificate_kept 0", "webhooks: there is no certificate yet")
	u.tell(errors.New("it is another's"))
	told("certificate_kept 0", "webhooks: there is no certificate yet: it is another's")
	made, err := newPair(names, start)
	if err != nil {
		t.Fatal(err)
	}
	u.serve(&pairs{newest: made})
	ends := fmt.Sprintf("certificate_expiry_timestamp_seconds %g", float64(made.leaf().NotAfter.Unix()))
	told(ends + ", certificate_kept 1")
	u.tell(errors.New("it is broken"))
	told(ends+", certificate_kept 0", "webhooks: the certificate is not looked after: it is broken")
	u.serve(&pairs{newest: made})

	// A configuration that is not there, or calls somebody else, is named.
	k.Mutating = "ours"
	u.miss()
	told(ends + ", certificate_kept 1") // its list has not come
	list := &kube.Watch{Kind: mutatingKind}
	u.take(kube.Event{Of: list, List: true})
	u.miss()
	told(ends+", certificate_kept 1", "webhooks: there is no MutatingWebhookConfiguration ours")
	for _, tt := range [][2]string{{"other", "webhooks: no webhook of MutatingWebhookConfiguration ours calls service mesh/discovery"}, {"discovery", ""}} {
		service, line := tt[0], tt[1]
		text := "kind: MutatingWebhookConfiguration\nmetadata: {name: ours}\nwebhooks: [{name: a, clientConfig: {service: {namespace: mesh, name: " + service + "}}}]"
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		u.take(kube.Event{Of: list, Put: &o})
		u.miss()
		if line == "" {
			u.count(mutatingKind)
			told(`bundle_writes_total{kind="MutatingWebhookConfiguration"} 1, ` + ends + ", certificate_kept 1")
		} else {
			told(ends+", certificate_kept 1", line)
		}
	}
}
