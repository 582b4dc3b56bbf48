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
