package ads

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/ads/protocol"
)

// metrics are the Prometheus metrics, with pilot-discovery's names where the meaning is the same.
type metrics struct {
	pushes, rejects, bytes, resets, refused *prometheus.CounterVec
	debounce, convergence, pushTime         prometheus.Histogram
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: []float64{.01, .025, .05, .1, .2, .3, .5, 1, 3, 5, 10, 20, 30},
		})
	}
	return &metrics{
		pushes:      counter("pilot_xds_pushes_total", "Responses, by type and what became of them: sent, acked, nacked.", "type", "result"),
		rejects:     counter("pilot_xds_rejects_total", "Responses that a proxy refused.", "type"),
		bytes:       counter("pilot_xds_sent_bytes_total", "Bytes of resources in responses.", "type"),
		resets:      counter("pilot_xds_stream_resets_total", "Streams that ended, by cause: client, slow, refused, error.", "cause"),
		refused:     counter("pilot_xds_streams_refused_total", "Streams that were not begun, by reason.", "reason"),
		debounce:    seconds("pilot_debounce_time", "How old the oldest change of a push was when its mesh was made: --debounceMax at most, and the making."),
		convergence: seconds("pilot_proxy_convergence_time", "From a change to the last proxy's answer."),
		pushTime:    seconds("pilot_xds_push_time", "From a change to a response that tells a proxy of it which was connected before."),
	}
}

func (m *metrics) sent(responses []protocol.Response, since time.Time, now time.Time) {
	for i := range responses {
		r := &responses[i]
		m.pushes.WithLabelValues(r.Kind.String(), "sent").Inc()
		m.bytes.WithLabelValues(r.Kind.String()).Add(float64(r.Size()))
		if !since.IsZero() {
			m.pushTime.Observe(now.Sub(since).Seconds())
		}
	}
}

func (m *metrics) answered(k content.Kind, nacked bool) {
	if nacked {
		m.pushes.WithLabelValues(k.String(), "nacked").Inc()
		m.rejects.WithLabelValues(k.String()).Inc()
		return
	}
	m.pushes.WithLabelValues(k.String(), "acked").Inc()
}

// collector collects the metrics of a server.
type collector struct{ *Server }

var (
	connected    = prometheus.NewDesc("pilot_xds", "Connected proxies.", []string{"type", "version", "variant"}, nil)
	serviceCount = prometheus.NewDesc("pilot_services", "Services of the mesh.", nil, nil)
	resources    = prometheus.NewDesc("pilot_xds_resources", "Resources that connected proxies may be told, each once.", []string{"type"}, nil)
	encoded      = prometheus.NewDesc("pilot_xds_resources_encoded", "Resources that the newest generation had to encode.", nil, nil)
	rebuilt      = prometheus.NewDesc("pilot_xds_views_rebuilt", "Outbound views that the newest generation built.", nil, nil)
	withheld     = prometheus.NewDesc("pilotlight_xds_refused_parts", "Resources and virtual hosts that a connected proxy refuses while it has the rest, each once.", []string{"type"}, nil)
	waiting      = prometheus.NewDesc("pilotlight_xds_waiting_proxies", "Proxies that came back and keep what they have, by reason: a source is lacking, or most of their clusters are gone at once.", []string{"reason"}, nil)
	expiry       = prometheus.NewDesc("pilotlight_secret_nearest_expiry_timestamp_seconds", "When the first certificate of a secret ends that connected proxies use, such as one of a gateway; absent without any.", nil, nil)
	pushed       = prometheus.NewDesc("pilot_xds_generation", "The newest generation.", nil, nil)
)

// Describe sends nothing: the metrics depend on the connected proxies.
func (s collector) Describe(chan<- *prometheus.Desc) {}

// Collect counts the connected proxies at the time of the scrape.
func (s collector) Collect(out chan<- prometheus.Metric) {
	m := s.metrics
	for _, c := range []prometheus.Collector{m.pushes, m.rejects, m.bytes, m.resets, m.refused, m.debounce, m.convergence, m.pushTime} {
		c.Collect(out)
	}
	for k, n := range s.refused() {
		out <- prometheus.MustNewConstMetric(withheld, prometheus.GaugeValue, float64(n), content.Kind(k).String())
	}
	for reason, n := range s.waiting() {
		out <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(n), reason)
	}
	if first := s.nearestExpiry(); !first.IsZero() {
		out <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(first.Unix()))
	}
	count := map[[3]string]int{}
	for _, st := range s.all() {
		count[st.labels()]++
	}
	for labels, n := range count {
		out <- prometheus.MustNewConstMetric(connected, prometheus.GaugeValue, float64(n), labels[:]...)
	}
	if g := s.current.Load(); g != nil {
		gauge := func(d *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
		}
		for k, n := range g.Resources() {
			out <- prometheus.MustNewConstMetric(resources, prometheus.GaugeValue, float64(n), content.Kind(k).String())
		}
		gauge(serviceCount, float64(len(g.Mesh.Services())))
		gauge(encoded, float64(g.Work.Encoded.Total()))
		gauge(rebuilt, float64(g.Work.Rebuilt.Total()))
		gauge(pushed, float64(g.number))
	}
}

// Metrics returns the server's metrics for Prometheus.
func (s *Server) Metrics() prometheus.Collector { return collector{s} }
