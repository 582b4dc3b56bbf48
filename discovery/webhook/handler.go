package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/kube"
)

// Review returns the response for an object; nil if it has none. The caller sets the UID of the response. The context
// ends when the API server stops waiting. A Review that leaves an object as it is for a reason returns the reason as the
// audit annotation Skipped, which the API server writes into its audit log.
type Review func(context.Context, *kube.AdmissionRequest) *kube.AdmissionResponse

// Bounds of a request. The API server accepts objects of 3 MiB, and sends the old one with the new one.
const (
	maxBody     = 8 << 20
	smallBody   = 64 << 10 // most Pods are smaller
	largeBodies = 64 << 20 // bytes of large bodies in memory at once; small ones do not wait for them
	readTimeout = 10 * time.Second
	maxTimeout  = 30 * time.Second // the longest time that the API server may wait
	timeout     = 10 * time.Second // the time that it waits if the request has none
)

// Handler answers AdmissionReviews of admission.k8s.io/v1.
type Handler struct {
	reviews map[string]Review
	large   *semaphore.Weighted
	metrics metrics
	log     *slog.Logger
}

// NewHandler returns a Handler of these paths, such as "/inject".
func NewHandler(reviews map[string]Review, log *slog.Logger) *Handler {
	return &Handler{reviews, semaphore.NewWeighted(largeBodies), newMetrics(), log}
}

// fault is an answer to a request that is not a valid review.
type fault struct {
	code int
	text string
}

func (f fault) Error() string { return f.text }

func faultf(code int, format string, args ...any) fault {
	return fault{code, fmt.Sprintf(format, args...)}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	answer, result, err := h.answer(w, r)
	code := http.StatusOK
	if err != nil {
		code = http.StatusInternalServerError
		if f := (fault{}); errors.As(err, &f) {
			code = f.code
		}
	}
	h.metrics.observe(h.label(r), outcomeOf(result, code), time.Since(began))
	if err != nil {
		w.Header().Set("Connection", "close") // the rest of the body is not read
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // an error means that the client has disconnected
}

// label returns the path of a metric: those of other paths are one, since callers choose them.
func (h *Handler) label(r *http.Request) string {
	if h.reviews[r.URL.Path] == nil {
		return "other"
	}
	return r.URL.Path
}

// answer returns the answer, and the response that it holds.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request) ([]byte, *kube.AdmissionResponse, error) {
	review := h.reviews[r.URL.Path]
	switch content, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case review == nil:
		return nil, nil, faultf(http.StatusNotFound, "%.100q: there is no such webhook", r.URL.Path)
	case r.Method != http.MethodPost:
		return nil, nil, faultf(http.StatusMethodNotAllowed, "method %.20q: want POST", r.Method)
	case content != "application/json":
		return nil, nil, faultf(http.StatusUnsupportedMediaType, "content type %.100q: want application/json", content)
	case r.ContentLength < 0:
		return nil, nil, faultf(http.StatusLengthRequired, "the length of the body is not said")
	case r.ContentLength > maxBody:
		return nil, nil, faultf(http.StatusRequestEntityTooLarge, "the body has %d bytes, want at most %d", r.ContentLength, maxBody)
	}
	ctx, cancel := context.WithTimeout(r.Context(), waitOf(r))
	defer cancel()
	release, err := h.hold(ctx, r.ContentLength)
	if err != nil {
		return nil, nil, err
	}
	defer release()
	request, kind, err := read(w, r)
	if err != nil {
		return nil, nil, err
	}
	response := h.review(ctx, review, r.URL.Path, request)
	if response == nil {
		return nil, nil, fmt.Errorf("%s: the webhook has no answer", r.URL.Path)
	}
	response.UID = request.UID
	answer, err := json.Marshal(kube.AdmissionReview{TypeMeta: kind, Response: response})
	return answer, response, err
}

// waitOf returns how long the API server waits.
func waitOf(r *http.Request) time.Duration {
	said, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || said <= 0 {
		return timeout
	}
	return min(said, maxTimeout)
}

// hold waits until there is room for a large body.
func (h *Handler) hold(ctx context.Context, size int64) (release func(), err error) {
	if size <= smallBody {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if h.large.Acquire(ctx, size) != nil {
		return nil, faultf(http.StatusServiceUnavailable, "too many large requests at once")
	}
	return func() { h.large.Release(size) }, nil
}

// read reads a review within its time.
func read(w http.ResponseWriter, r *http.Request) (*kube.AdmissionRequest, metav1.TypeMeta, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(readTimeout)) // fails in tests without a connection
	_ = control.SetWriteDeadline(time.Now().Add(maxTimeout + readTimeout))
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil, metav1.TypeMeta{}, faultf(http.StatusRequestTimeout, "read the body: %v", err)
	}
	var review kube.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, metav1.TypeMeta{}, faultf(http.StatusBadRequest, "the body is no AdmissionReview: %v", err)
	}
	want := kube.AdmissionVersion
	switch {
	case review.APIVersion != want || review.Kind != "AdmissionReview":
		return nil, metav1.TypeMeta{}, faultf(http.StatusBadRequest, "the body is %.60q, %.60q: want AdmissionReview of %s", review.Kind, review.APIVersion, want)
	case review.Request == nil:
		return nil, metav1.TypeMeta{}, faultf(http.StatusBadRequest, "the AdmissionReview has no request")
	case review.Request.UID == "":
		return nil, metav1.TypeMeta{}, faultf(http.StatusBadRequest, "request.uid: is missing")
	}
	return review.Request, review.TypeMeta, nil
}

// review calls the Review. A panic of it affects only its own request.
func (h *Handler) review(ctx context.Context, review Review, path string, r *kube.AdmissionRequest) (out *kube.AdmissionResponse) {
	defer func() {
		if p := recover(); p != nil {
			h.log.Error("a webhook panics", "path", path, "namespace", r.Namespace, "name", cmp.Or(r.Name, string(r.UID)),
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			out = nil
		}
	}()
	return review(ctx, r)
}

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
