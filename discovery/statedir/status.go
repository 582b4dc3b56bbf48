package statedir

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// status is what the directory tells.
type status struct {
	unused    []string             // a line for each file that is not used
	written   map[string]time.Time // by source: of when what is written is
	unwritten map[string]string    // by source: why its last write failed
	failures  int
}

// wrote records a write, and logs when writes begin to fail, and when they succeed again.
func (d *Directory) wrote(source string, p pending, bytes int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	was, failed := d.status.unwritten[source]
	switch {
	case err != nil:
		d.status.failures++
		if d.status.unwritten[source] = err.Error(); was != err.Error() {
			d.log.Error("state not written, what was written before stays", "source", source, "err", err, "again", retryAfter)
		}
		return
	case failed:
		delete(d.status.unwritten, source)
		d.log.Info("state is written again", "source", source)
	}
	if p.forget {
		delete(d.status.written, source)
		return
	}
	d.status.written[source] = p.at
	d.log.Debug("state written", "source", source, "groups", len(p.groups), "bytes", bytes)
}

// Lines returns a line for each fault.
func (d *Directory) Lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, text := range d.status.unused {
		out = append(out, "state: "+text)
	}
	for _, source := range slices.Sorted(maps.Keys(d.status.unwritten)) {
		text := fmt.Sprintf("state: source %s is not written", source)
		if at, ok := d.status.written[source]; ok {
			text += " since " + at.UTC().Format(time.RFC3339)
		}
		out = append(out, text+": "+d.status.unwritten[source])
	}
	return out
}

var (
	written = prometheus.NewDesc("pilotlight_state_written_timestamp_seconds", "Of when what is kept of a source on disk is.", []string{"source"}, nil)
	unwrit  = prometheus.NewDesc("pilotlight_state_unwritten_sources", "Sources whose last write to --stateDir failed.", nil, nil)
	failed  = prometheus.NewDesc("pilotlight_state_write_failures_total", "Writes to --stateDir that failed.", nil, nil)
	unused  = prometheus.NewDesc("pilotlight_state_unused_files", "Files of --stateDir that the start did not use: see /ready?verbose.", nil, nil)
)

// Describe sends nothing: the sources may change.
func (d *Directory) Describe(chan<- *prometheus.Desc) {}

// Collect sends what is written, and what is not.
func (d *Directory) Collect(out chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, source := range slices.Sorted(maps.Keys(d.status.written)) {
		out <- prometheus.MustNewConstMetric(written, prometheus.GaugeValue, float64(d.status.written[source].UnixMilli())/1000, source)
	}
	out <- prometheus.MustNewConstMetric(unwrit, prometheus.GaugeValue, float64(len(d.status.unwritten)))
	out <- prometheus.MustNewConstMetric(failed, prometheus.CounterValue, float64(d.status.failures))
	out <- prometheus.MustNewConstMetric(unused, prometheus.GaugeValue, float64(len(d.status.unused)))
}
