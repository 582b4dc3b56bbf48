package admission

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// found stores the fault of the ConfigMap as it is now; nil if it has none.
func (s *Source) found(fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Lines returns a line for the fault of the configuration, if it has one.
func (s *Source) Lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := "injection: ConfigMap " + s.Namespace + "/" + s.Name + ": "
	switch {
	case s.fault != nil && s.current != nil:
		return []string{fmt.Sprintf("%s%v: the last sound one is used", at, s.fault)}
	case s.fault != nil:
		return []string{fmt.Sprintf("%s%v: no Pod can be injected", at, s.fault)}
	case s.current == nil:
		return []string{"injection: there is no configuration yet: no Pod can be injected"}
	default:
		return nil
	}
}

var refused = prometheus.NewDesc("pilotlight_injection_config_refused",
	"1 while the ConfigMap of the injection has a fault or is gone, and the last sound one is used, if there was one: /ready?verbose names the fault.", nil, nil)

// Describe names the metric.
func (s *Source) Describe(out chan<- *prometheus.Desc) { out <- refused }

// Collect sends 1 while the configuration is refused, else 0.
func (s *Source) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := 0.0
	if s.fault != nil {
		value = 1
	}
	out <- prometheus.MustNewConstMetric(refused, prometheus.GaugeValue, value)
}
