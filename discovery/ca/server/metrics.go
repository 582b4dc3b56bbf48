package server

import "github.com/prometheus/client_golang/prometheus"

type metrics struct{ issued, refused *prometheus.CounterVec }

func newMetrics() metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	return metrics{
		counter("pilotlight_ca_issued_total", "Certificates that were signed, by what proved the identity.", "proof"),
		counter("pilotlight_ca_refused_total", "Requests for a certificate that were refused, by cause.", "cause"),
	}
}

var expiry = prometheus.NewDesc("pilotlight_ca_expiry_timestamp_seconds", "When the first certificate of the authority ends; no certificate outlives it.", nil, nil)

// Describe names the metrics of the authority.
func (d *Desk) Describe(out chan<- *prometheus.Desc) {
	d.metrics.issued.Describe(out)
	d.metrics.refused.Describe(out)
	out <- expiry
}

// Collect sends the metrics of the authority.
func (d *Desk) Collect(out chan<- prometheus.Metric) {
	d.metrics.issued.Collect(out)
	d.metrics.refused.Collect(out)
	if authority := d.Authority(); authority != nil {
		out <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(authority.Ends().Unix()))
	}
}
