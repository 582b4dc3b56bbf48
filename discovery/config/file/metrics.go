package file

import "github.com/prometheus/client_golang/prometheus"

var (
	objectsDesc = prometheus.NewDesc("pilotlight_config_objects", "Objects of the configuration files by kind and state: served; "+
		"last_good, served in the form before the one that is refused; refused, not served; held, gone from the files and served still.",
		[]string{"kind", "state"}, nil)
	filesDesc = prometheus.NewDesc("pilotlight_config_files", "Files by state: unreadable, of which not all objects can be told; "+
		"waiting, which are being written.", []string{"state"}, nil)
)

// Describe tells what Collect sends.
func (s *Source) Describe(out chan<- *prometheus.Desc) { out <- objectsDesc; out <- filesDesc }

// Collect counts objects by kind and state, and files by state. A kind that was never served nor refused has no line.
func (s *Source) Collect(out chan<- prometheus.Metric) {
	now := s.Status()
	for kind, n := range now.Kinds {
		for state, n := range map[string]int{"served": n.Served, "last_good": n.LastGood, "refused": n.Refused, "held": n.Held} {
			out <- prometheus.MustNewConstMetric(objectsDesc, prometheus.GaugeValue, float64(n), kind, state)
		}
	}
	for state, n := range map[string]int{"unreadable": len(now.Lost), "waiting": len(now.Waiting)} {
		out <- prometheus.MustNewConstMetric(filesDesc, prometheus.GaugeValue, float64(n), state)
	}
}
