package file

import "github.com/prometheus/client_golang/prometheus"

var (
	objectsDesc = prometheus.NewDesc("pilotlight_config_objects", "Objects of the configuration files by kind, state and source: served; "+
		"last_good, served in the form before the one that is refused; refused, not served; held, gone from the files and served still.",
		[]string{"kind", "state", "source"}, nil)
	filesDesc = prometheus.NewDesc("pilotlight_config_files", "Files by state and source: unreadable, of which not all objects can be told; "+
		"waiting, which are being written.", []string{"state", "source"}, nil)
)

// Metrics counts objects and files of stores. It returns the stores that exist at the time of a scrape, by the names of
// their sources.
type Metrics func() map[string]*Source

// Describe sends the descriptions of the metrics that Collect sends.
func (m Metrics) Describe(out chan<- *prometheus.Desc) { out <- objectsDesc; out <- filesDesc }

// Collect counts objects by kind and state, and files by state. A kind that was never served or refused has no line.
func (m Metrics) Collect(out chan<- prometheus.Metric) {
	for source, store := range m() {
		now := store.Status()
		for kind, n := range now.Kinds {
			for state, n := range map[string]int{"served": n.Served, "last_good": n.LastGood, "refused": n.Refused, "held": n.Held} {
				out <- prometheus.MustNewConstMetric(objectsDesc, prometheus.GaugeValue, float64(n), kind, state, source)
			}
		}
		for state, n := range map[string]int{"unreadable": len(now.Lost), "waiting": len(now.Waiting)} {
			out <- prometheus.MustNewConstMetric(filesDesc, prometheus.GaugeValue, float64(n), state, source)
		}
	}
}
