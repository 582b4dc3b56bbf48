package status

import (
	"io"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/metrics"
)

// writeMetrics writes the agent's own metrics.
func (d Document) writeMetrics(to io.Writer, now time.Time) {
	w := metrics.NewWriter(to)
	defer w.Flush()
	ready, _ := d.Ready()
	w.Metric("ready", "gauge", "Whether a proxy serves and shall get work.", metrics.Number(ready))
	w.Metric("ready_changes_total", "counter", "Changes of readiness.", d.Past.Changes)
	w.Family("condition", "gauge", "Whether what readiness needs holds.")
	for _, c := range d.verdict().Conditions {
		w.Sample("condition", metrics.Number(c.Status), "type", string(c.Type))
	}
	w.Metric("degraded", "gauge",
		"Whether Envoy serves though it rejected some configuration, or cannot use the files of its certificates.",
		metrics.Number(d.Health.Degraded != ""))
	if d.Redirected {
		w.Metric("inbound_bypassed", "gauge",
			"Whether clients are seen to reach the program past Envoy, though its traffic is said to be redirected.",
			metrics.Number(d.Health.Bypassed != nil))
	}
	if discovery := d.Health.Discovery; discovery != nil {
		w.Metric("discovery_connected", "gauge",
			"Whether Envoy has its stream to discovery; readiness stays when it is lost.", metrics.Number(discovery.Status))
	}
	if until := d.Health.LastGood; until != nil {
		w.Metric("last_good_timestamp_seconds", "gauge", "Until when the remembered configuration was the newest, while Envoy serves that one since discovery is away.", until.Unix())
	}
	if r := d.Recording; r != nil {
		w.Metric("last_good_recording", "gauge", "Whether the configuration that Envoy accepts is remembered.", metrics.Number(r.Fault == ""))
		w.Metric("last_good_recording_ended_total", "counter", "Times that it was remembered no longer, such as for a full disk.", r.Ended)
		if !r.Newest.IsZero() {
			w.Metric("last_good_recorded_timestamp_seconds", "gauge", "Until when the configuration that an Envoy would get while discovery is away was the newest.",
				r.Newest.Unix())
		}
	}
	w.Metric("drained", "gauge", "Whether it is out of service until it is resumed.", metrics.Number(d.Supervisor.Drained))
	d.writeSupervisor(w, now)
	w.Family("certificate_expiry_timestamp_seconds", "gauge", "When the certificate of the workload ends that Envoy uses.")
	for _, c := range d.Certificates {
		if ends := c.ends(); ends != nil {
			w.Sample("certificate_expiry_timestamp_seconds", ends.Unix(), "path", c.Path)
		}
	}
	w.Family("certificate_valid", "gauge", "Whether Envoy can use a certificate of the workload as it is in its file.")
	for _, c := range d.Certificates {
		w.Sample("certificate_valid", metrics.Number(c.Fault == ""), "path", c.Path)
	}
	w.Family("log_lines_dropped_total", "counter", "Lines that were dropped, for nobody read the pipe that they go to.")
	for _, d := range d.Dropped {
		w.Sample("log_lines_dropped_total", d.Lines, "stream", d.Stream)
	}
	w.Metric("resident_memory_bytes", "gauge", "Of the agent itself.", d.Memory)
}

func (d Document) writeSupervisor(w metrics.Writer, now time.Time) {
	s := d.Supervisor
	w.Metric("epochs", "gauge", "Living Envoy processes.", len(s.Epochs))
	w.Metric("failures_in_a_row", "gauge", "Failures that count against the restart budget.", s.Failures)
	w.Metric("restart_budget", "gauge", "Failures in a row that are answered by a restart.", s.Budget)
	w.Metric("configuration_refused", "gauge", "Whether the desired configuration does not run.", metrics.Number(s.Refusal != nil))
	live := 0.0
	for _, e := range s.Epochs {
		if e.LiveAt != nil {
			live = now.Sub(*e.LiveAt).Seconds()
		}
	}
	w.Metric("live_seconds", "gauge", "How long the newest live Envoy has been so.", live)
	w.Metric("last_handover_seconds", "gauge", "From a change until its newcomer was live.", s.Took.Seconds())
	w.Family("events_total", "counter", "What has happened.")
	for _, note := range agent.Notes() {
		w.Sample("events_total", s.Counts[note], "event", snake(note))
	}
}

// snake converts a note to a label: "Envoy ended unasked" → "envoy_ended_unasked". It leaves out the explanation after
// a colon.
func snake(n agent.Note) string {
	notLetter := func(r rune) bool { return r < 'a' || r > 'z' }
	name, _, _ := strings.Cut(strings.ToLower(string(n)), ":")
	return strings.Join(strings.FieldsFunc(name, notLetter), "_")
}
