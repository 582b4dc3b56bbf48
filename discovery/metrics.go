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
	sourceAwaited   = perSource("awaited", "1 while discovery is not ready since a source that it requires is missing, or a part of it.")
	sourceUnread    = perSource("unread_parts", "Parts of a source, such as files or kinds of objects, that cannot be read: see /debug/sources.")
	sourceMalformed = perSource("malformed_records", "Records of a source that cannot be read: see /debug/sources.")
	sourceHeld      = perSource("held_groups", "Groups that a source no longer has, served for a while since most of the mesh went at once.")
	sourceLacking   = perSource("lacking", "1 while nothing is known of a source, and proxies that come back keep what they have.")
	sourceRecalled  = perSource("remembered_groups", "Groups of before the start that a source has not sent again, and that are served.")
	sourceRecallAt  = perSource("remembered_timestamp_seconds", "When a source had what is served of before the start; absent once it is whole.")
	sourceRestarts  = perSource("restarts_total", "Starts of a source after an error.")
	sourceChanged   = perSource("last_change_timestamp_seconds", "When a source last sent a change; absent before that.")
	sourceFailed    = perSource("last_error_timestamp_seconds", "When a source last failed; absent before that.")
)

// Describe sends nothing: the sources may change.
func (s *Server) Describe(chan<- *prometheus.Desc) {}

// Collect sends the status of each source.
func (s *Server) Collect(out chan<- prometheus.Metric) {
	for _, now := range s.Statuses() {
		emit := func(what *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(what, kind, value, append([]string{now.Name}, labels...)...)
		}
		for _, state := range sourceStates {
			emit(sourceState, prometheus.GaugeValue, number(state == now.State), string(state))
		}
		emit(sourceLate, prometheus.GaugeValue, number(now.Late && !now.Awaited))
		emit(sourceAwaited, prometheus.GaugeValue, number(now.Awaited))
		emit(sourceUnread, prometheus.GaugeValue, float64(len(now.Unread)))
		emit(sourceObjects, prometheus.GaugeValue, float64(now.Objects))
		emit(sourceMalformed, prometheus.GaugeValue, float64(len(now.Malformed)))
		emit(sourceHeld, prometheus.GaugeValue, float64(now.Held))
		emit(sourceLacking, prometheus.GaugeValue, number(now.Lacking))
		emit(sourceRecalled, prometheus.GaugeValue, float64(now.Remembered))
		if !now.RememberedAt.IsZero() {
			emit(sourceRecallAt, prometheus.GaugeValue, float64(now.RememberedAt.UnixMilli())/1000)
		}
		emit(sourceRestarts, prometheus.CounterValue, float64(now.Restarts))
		if !now.Changed.IsZero() {
			emit(sourceChanged, prometheus.GaugeValue, float64(now.Changed.UnixMilli())/1000)
		}
		if !now.ErrorTime.IsZero() {
			emit(sourceFailed, prometheus.GaugeValue, float64(now.ErrorTime.UnixMilli())/1000)
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
