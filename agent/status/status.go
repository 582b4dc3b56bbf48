package status

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
)

// Document is everything that the agent tells about itself.
type Document struct {
	Node       string
	Supervisor agent.Status
	Pids       map[int]int // by epoch
	Health     health.Verdict
	Expires    time.Time // the workload's certificate; zero when there is none
	Memory     int64     // of the agent, resident, in bytes
}

// ready is whether a proxy serves and shall go on to. A supervisor that stops says no at once, though Envoy serves
// until the work in flight is done.
func (d Document) ready() bool { return d.Health.Ready && !d.Supervisor.Stopping }

// Handler answers /healthz/ready, /status and /metrics from what document returns at that moment.
func Handler(document func() Document) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz/ready", func(w http.ResponseWriter, _ *http.Request) { document().writeReady(w) })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { document().writeJSON(w) })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { document().writeMetrics(w, time.Now()) })
	return mux
}

func (d Document) writeReady(w http.ResponseWriter) {
	if d.ready() {
		fmt.Fprintln(w, "ready")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	if d.Supervisor.Stopping {
		fmt.Fprintln(w, "stopping")
	}
	for _, c := range d.Health.Conditions {
		if !c.Status {
			fmt.Fprintf(w, "%s: %s\n", c.Type, c.Reason)
		}
	}
}

func (d Document) writeJSON(w http.ResponseWriter) {
	type epoch struct {
		agent.EpochStatus
		Pid int `json:"pid,omitempty"`
	}
	document := struct {
		Node  string `json:"node"`
		Ready bool   `json:"ready"`
		agent.Status
		Epochs  []epoch        `json:"epochs"` // instead of the Status's
		Health  health.Verdict `json:"health"`
		Expires *time.Time     `json:"certificate_expires,omitempty"`
	}{Node: d.Node, Ready: d.ready(), Status: d.Supervisor, Health: d.Health, Epochs: []epoch{}}
	if !d.Expires.IsZero() {
		document.Expires = &d.Expires
	}
	for _, e := range d.Supervisor.Epochs {
		document.Epochs = append(document.Epochs, epoch{e, d.Pids[e.Epoch]})
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(document) // whoever asked has gone away
}

// writeMetrics writes Prometheus's text format. The names begin with pilotlight_agent_.
func (d Document) writeMetrics(w http.ResponseWriter, now time.Time) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	metric := func(name, kind, help string, value any) {
		fmt.Fprintf(w, "# HELP pilotlight_agent_%s %s\n# TYPE pilotlight_agent_%[1]s %[3]s\npilotlight_agent_%[1]s %[4]v\n", name, help, kind, value)
	}
	metric("ready", "gauge", "Whether a proxy serves and shall go on to.", number(d.ready()))
	metric("epochs", "gauge", "Living Envoy processes.", len(d.Supervisor.Epochs))
	metric("failures_in_a_row", "gauge", "Failures that count against the restart budget.", d.Supervisor.Failures)
	metric("restart_budget", "gauge", "Failures in a row that are answered by a restart.", d.Supervisor.Budget)
	metric("configuration_refused", "gauge", "Whether the desired configuration does not run.", number(d.Supervisor.Refusal != nil))
	live := 0.0
	for _, e := range d.Supervisor.Epochs {
		if e.LiveAt != nil {
			live = now.Sub(*e.LiveAt).Seconds()
		}
	}
	metric("live_seconds", "gauge", "How long the newest live Envoy has been so.", live)
	metric("last_handover_seconds", "gauge", "From a change until its newcomer was live.", d.Supervisor.Took.Seconds())
	if !d.Expires.IsZero() {
		metric("certificate_expiry_timestamp_seconds", "gauge", "When the workload's certificate ends.", d.Expires.Unix())
	}
	metric("resident_memory_bytes", "gauge", "Of the agent itself.", d.Memory)
	fmt.Fprintf(w, "# HELP pilotlight_agent_events_total What has happened.\n# TYPE pilotlight_agent_events_total counter\n")
	for _, note := range agent.Notes() {
		fmt.Fprintf(w, "pilotlight_agent_events_total{event=%q} %d\n", snake(note), d.Supervisor.Counts[note])
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// snake makes a label of a note: "Envoy ended unasked" → "envoy_ended_unasked".
func snake(n agent.Note) string {
	notLetter := func(r rune) bool { return r < 'a' || r > 'z' }
	return strings.Join(strings.FieldsFunc(strings.ToLower(string(n)), notLetter), "_")
}
