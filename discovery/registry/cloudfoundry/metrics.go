package cloudfoundry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are the counters of the source.
type counts struct {
	routes   *atomic.Int64
	pruned   prometheus.Counter
	messages *prometheus.CounterVec
	gauge    prometheus.GaugeFunc
}

func newCounts() counts {
	c := counts{
		routes: new(atomic.Int64),
		pruned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pilotlight_cloudfoundry_pruned_total",
			Help: "Plain instances of Cloud Foundry that were dropped because they were not announced again.",
		}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pilotlight_cloudfoundry_messages_total",
			Help: "Messages on NATS by subject and result: taken; malformed, of which at least one route was left out.",
		}, []string{"subject", "result"}),
	}
	c.gauge = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pilotlight_cloudfoundry_routes", Help: "Routes of Cloud Foundry with at least one instance.",
	}, func() float64 { return float64(c.routes.Load()) })
	return c
}

func (c counts) message(subject string, malformed bool) {
	result := "taken"
	if malformed {
		result = "malformed"
	}
	c.messages.WithLabelValues(subject, result).Inc()
}

// Describe sends the descriptions of the metrics that Collect sends.
func (s *Source) Describe(out chan<- *prometheus.Desc) {
	for _, c := range s.collectors() {
		c.Describe(out)
	}
}

// Collect sends the numbers of messages, routes and pruned instances.
func (s *Source) Collect(out chan<- prometheus.Metric) {
	for _, c := range s.collectors() {
		c.Collect(out)
	}
}

func (s *Source) collectors() []prometheus.Collector {
	return []prometheus.Collector{s.counts.gauge, s.counts.pruned, s.counts.messages}
}
