package webhook

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Serves reports whether there is a certificate to serve.
func (k *Keeper) Serves() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pairs != nil
}

// Lines returns a line for each fault of the certificate and of the configurations.
func (k *Keeper) Lines() (out []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.pairs == nil && k.failed != nil:
		out = append(out, fmt.Sprintf("webhooks: there is no certificate yet: %v", k.failed))
	case k.pairs == nil:
		out = append(out, "webhooks: there is no certificate yet")
	case k.failed != nil:
		out = append(out, fmt.Sprintf("webhooks: the certificate is not looked after: %v", k.failed))
	}
	for _, name := range k.unwritten {
		out = append(out, "webhooks: "+name)
	}
	return out
}

var (
	expiry = prometheus.NewDesc("pilotlight_webhook_certificate_expiry_timestamp_seconds", "When the certificate ends that webhooks are served with; absent before there is one.", nil, nil)
	kept   = prometheus.NewDesc("pilotlight_webhook_certificate_kept", "1 while discovery looks after the certificate of its webhooks; 0 before the first, and after an error, which /ready?verbose names.", nil, nil)
	writes = prometheus.NewDesc("pilotlight_webhook_bundle_writes_total", "How often discovery wrote its roots into a configuration of webhooks: often, where another program resets them.", []string{"kind"}, nil)
)

// Describe names the metrics of the certificate.
func (k *Keeper) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{expiry, kept, writes} {
		out <- d
	}
}

// Collect sends the metrics of the certificate.
func (k *Keeper) Collect(out chan<- prometheus.Metric) {
	k.mu.Lock()
	defer k.mu.Unlock()
	looked := 0.0
	if k.pairs != nil {
		out <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(k.pairs.served(k.names(), k.Now()).leaf().NotAfter.Unix()))
		if k.failed == nil {
			looked = 1
		}
	}
	out <- prometheus.MustNewConstMetric(kept, prometheus.GaugeValue, looked)
	for _, kind := range slices.Sorted(maps.Keys(k.writes)) {
		out <- prometheus.MustNewConstMetric(writes, prometheus.CounterValue, float64(k.writes[kind]), kind)
	}
}
