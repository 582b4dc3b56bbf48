package discovery

import (
	"github.com/prometheus/client_golang/prometheus"
)

func perSource(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pilotlight_source_"+name, help, append([]string{"source"}, labels...), nil)
}

var (
	sourceState     = perSource("state", "1 for the state that a source is in: syncing, synced, failed, ended, removed.", "state")
	sourceLate      = perSource("late", "1 while discovery goes on without a source that has not synced within its deadline.")
	sourceObjects   = perSource("objects", "Services and objects that are served of a source.")
	sourceMalformed = perSource("malformed_records", "Records of a source that cannot be read: see /debug/sources.")
	sourceHeld      = perSource("held_groups", "Groups that a source no longer has, served for a while since most of the mesh went at once.")
	sourceRestarts  = perSource("restarts_total", "Starts of a source after an error.")
	sourceChanged   = perSource("last_change_timestamp_seconds", "When a source last told something new; absent before that.")
	sourceFailed    = perSource("last_error_timestamp_seconds", "When a source last failed; absent before that.")
)

// Describe sends nothing: which sources there are changes.
func (s *Server) Describe(chan<- *prometheus.Desc) {}

// Collect tells how each source is doing.
func (s *Server) Collect(out chan<- prometheus.Metric) {
	for _, now := range s.Statuses() {
		tell := func(what *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(what, kind, value, append([]string{now.Name}, labels...)...)
		}
		for _, state := range sourceStates {
			tell(sourceState, prometheus.GaugeValue, number(state == now.State), string(state))
		}
		tell(sourceLate, prometheus.GaugeValue, number(now.Late))
		tell(sourceObjects, prometheus.GaugeValue, float64(now.Objects))
		tell(sourceMalformed, prometheus.GaugeValue, float64(len(now.Malformed)))
		tell(sourceHeld, prometheus.GaugeValue, float64(now.Held))
		tell(sourceRestarts, prometheus.CounterValue, float64(now.Restarts))
		if !now.Changed.IsZero() {
			tell(sourceChanged, prometheus.GaugeValue, float64(now.Changed.UnixMilli())/1000)
		}
		if !now.ErrorTime.IsZero() {
			tell(sourceFailed, prometheus.GaugeValue, float64(now.ErrorTime.UnixMilli())/1000)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
