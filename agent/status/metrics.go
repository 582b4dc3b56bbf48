package status

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent"
)

// textFormat is the only format that is written. Every scraper accepts it, also one that prefers another.
const textFormat = "text/plain; version=0.0.4; charset=utf-8"

// prefix begins the name of every metric of the agent.
const prefix = "pilotlight_agent_"

// writer writes the text format of Prometheus.
type writer struct{ *bufio.Writer }

// family begins a metric; its samples follow.
func (w writer) family(name, kind, help string) {
	fmt.Fprintf(w, "# HELP %s%s %s\n# TYPE %[1]s%[2]s %[4]s\n", prefix, name, help, kind)
}

// sample writes a sample; labels are pairs of name and value.
func (w writer) sample(name string, value any, labels ...string) {
	fmt.Fprintf(w, "%s%s", prefix, name)
	separator := "{"
	for i := 0; i+1 < len(labels); i += 2 {
		fmt.Fprintf(w, `%s%s="%s"`, separator, labels[i], labelEscapes.Replace(labels[i+1]))
		separator = ","
	}
	if separator == "," {
		w.WriteByte('}')
	}
	fmt.Fprintf(w, " %v\n", value)
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (w writer) metric(name, kind, help string, value any) {
	w.family(name, kind, help)
	w.sample(name, value)
}

// writeMetrics writes the agent's own metrics.
func (d Document) writeMetrics(to io.Writer, now time.Time) {
	w := writer{bufio.NewWriter(to)}
	defer w.Flush()
	ready, _ := d.Ready()
	w.metric("ready", "gauge", "Whether a proxy serves and shall get work.", number(ready))
	w.metric("ready_changes_total", "counter", "Changes of readiness.", d.Past.Changes)
	w.family("condition", "gauge", "Whether what readiness needs holds.")
	for _, c := range d.verdict().Conditions {
		w.sample("condition", number(c.Status), "type", string(c.Type))
	}
	degraded := number(d.Health.Degraded != "")
	w.metric("degraded", "gauge", "Whether Envoy serves though it rejected some configuration, or cannot use the files of its certificates.", degraded)
	if d.Redirected {
		w.metric("inbound_bypassed", "gauge", "Whether clients are seen to reach the program past Envoy, though its traffic is said to be redirected.", number(d.Health.Bypassed != nil))
	}
	if discovery := d.Health.Discovery; discovery != nil {
		w.metric("discovery_connected", "gauge", "Whether Envoy has its stream to discovery; readiness stays when it is lost.", number(discovery.Status))
	}
	if until := d.Health.LastGood; until != nil {
		w.metric("last_good_timestamp_seconds", "gauge", "Until when the remembered configuration was the newest, while Envoy serves that one since discovery is away.", until.Unix())
	}
	if r := d.Recording; r != nil {
		w.metric("last_good_recording", "gauge", "Whether the configuration that Envoy accepts is remembered.", number(r.Fault == ""))
		w.metric("last_good_recording_ended_total", "counter", "Times that it was remembered no longer, such as for a full disk.", r.Ended)
		if !r.Newest.IsZero() {
			w.metric("last_good_recorded_timestamp_seconds", "gauge", "Until when the configuration that an Envoy would get while discovery is away was the newest.",
				r.Newest.Unix())
		}
	}
	w.metric("drained", "gauge", "Whether it is out of service until it is resumed.", number(d.Supervisor.Drained))
	d.writeSupervisor(w, now)
	w.family("certificate_expiry_timestamp_seconds", "gauge", "When the certificate of the workload ends that Envoy uses.")
	for _, c := range d.Certificates {
		if ends := c.ends(); ends != nil {
			w.sample("certificate_expiry_timestamp_seconds", ends.Unix(), "path", c.Path)
		}
	}
	w.family("certificate_valid", "gauge", "Whether Envoy can use a certificate of the workload as it is in its file.")
	for _, c := range d.Certificates {
		w.sample("certificate_valid", number(c.Fault == ""), "path", c.Path)
	}
	w.family("log_lines_dropped_total", "counter", "Lines that were dropped, for nobody read the pipe that they go to.")
	for _, d := range d.Dropped {
		w.sample("log_lines_dropped_total", d.Lines, "stream", d.Stream)
	}
	w.metric("resident_memory_bytes", "gauge", "Of the agent itself.", d.Memory)
}

func (d Document) writeSupervisor(w writer, now time.Time) {
	s := d.Supervisor
	w.metric("epochs", "gauge", "Living Envoy processes.", len(s.Epochs))
	w.metric("failures_in_a_row", "gauge", "Failures that count against the restart budget.", s.Failures)
	w.metric("restart_budget", "gauge", "Failures in a row that are answered by a restart.", s.Budget)
	w.metric("configuration_refused", "gauge", "Whether the desired configuration does not run.", number(s.Refusal != nil))
	live := 0.0
	for _, e := range s.Epochs {
		if e.LiveAt != nil {
			live = now.Sub(*e.LiveAt).Seconds()
		}
	}
	w.metric("live_seconds", "gauge", "How long the newest live Envoy has been so.", live)
	w.metric("last_handover_seconds", "gauge", "From a change until its newcomer was live.", s.Took.Seconds())
	w.family("events_total", "counter", "What has happened.")
	for _, note := range agent.Notes() {
		w.sample("events_total", s.Counts[note], "event", snake(note))
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// snake converts a note to a label: "Envoy ended unasked" → "envoy_ended_unasked". It leaves out the explanation after
// a colon.
func snake(n agent.Note) string {
	notLetter := func(r rune) bool { return r < 'a' || r > 'z' }
	name, _, _ := strings.Cut(strings.ToLower(string(n)), ":")
	return strings.Join(strings.FieldsFunc(name, notLetter), "_")
}
