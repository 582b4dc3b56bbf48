package webhook

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Skipped is the audit annotation of a response whose object was left as it is: it holds the reason.
const Skipped = "skipped"

// The outcomes of a review.
const (
	allowed    = "allowed"
	patched    = "patched"
	skipped    = "skipped"
	refused    = "refused"
	unanswered = "unanswered" // the API server applies failurePolicy
	invalid    = "invalid"    // the request was no review
)

// metrics count reviews. A label has no value that a caller chooses.
type metrics struct {
	reviews *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newMetrics() metrics {
	return metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilotlight_webhook_reviews_total",
			Help: "Admission requests, by path and outcome: allowed, patched, skipped, refused; unanswered, for which failurePolicy decides; invalid, which were no reviews.",
		}, []string{"path", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pilotlight_webhook_review_seconds", Help: "How long an admission request took, with the reading of its body.",
			Buckets: []float64{.001, .005, .025, .1, .5, 1, 5, 10},
		}, []string{"path"}),
	}
}

func (m metrics) observe(path, outcome string, took time.Duration) {
	m.reviews.WithLabelValues(path, outcome).Inc()
	m.seconds.WithLabelValues(path).Observe(took.Seconds())
}

// outcomeOf returns the outcome of a request, by its response, which may be nil, and its status code.
func outcomeOf(r *kube.AdmissionResponse, code int) string {
	switch {
	case code >= http.StatusInternalServerError:
		return unanswered
	case code != http.StatusOK || r == nil:
		return invalid
	case !r.Allowed:
		return refused
	case len(r.Patch) > 0:
		return patched
	case r.AuditAnnotations[Skipped] != "":
		return skipped
	default:
		return allowed
	}
}

// Describe names the metrics of reviews.
func (h *Handler) Describe(out chan<- *prometheus.Desc) {
	h.metrics.reviews.Describe(out)
	h.metrics.seconds.Describe(out)
}

// Collect sends the metrics of reviews.
func (h *Handler) Collect(out chan<- prometheus.Metric) {
	h.metrics.reviews.Collect(out)
	h.metrics.seconds.Collect(out)
}
