package status

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
)

// Config holds the parts of the agent that the status port uses.
type Config struct {
	Document    func() Document          // cheap
	AskCh       chan<- agent.Ask         // the supervisor's
	Quit        func()                   // stops the agent, as SIGTERM does
	Envoy       func() http.RoundTripper // to the admin of the epoch that serves; nil while none runs
	Application *Application             // whose metrics are merged; nil for none
	Probes      Probes                   // of the application
	Log         *slog.Logger

	owner bool // for the owner's socket, on which every request may write
}

// Handler is the status port.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz/ready", c.ready)
	mux.HandleFunc("GET /healthz/live", c.live)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, c.Document().view(time.Now()))
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", textFormat)
		c.Document().writeMetrics(w, time.Now())
	})
	if !c.owner { // only one merger, since it has the limits of all scrapes together
		mux.Handle("GET /stats/prometheus", newMerger(c))
	}
	mux.Handle("/drain", c.localOnly(c.command(agent.Drain, "drained: POST /undrain ends it")))
	mux.Handle("/undrain", c.localOnly(c.command(agent.Resume, "resuming: ready once an Envoy serves that was not drained")))
	mux.Handle("/quitquitquit", c.localOnly(c.quit))
	mux.Handle("/app-health/", c.Probes)
	mux.Handle("/app-lifecycle/", c.Probes)
	return mux
}

// readyView is /healthz/ready?verbose.
type readyView struct {
	Ready      bool               `json:"ready"`
	Stopping   bool               `json:"stopping"`
	Drained    bool               `json:"drained"`
	Degraded   string             `json:"degraded"`
	Conditions []health.Condition `json:"conditions"`
	Discovery  *health.Condition  `json:"discovery,omitempty"`
}

// ready answers 200, or 503 with the reasons.
func (c Config) ready(w http.ResponseWriter, r *http.Request) {
	d := c.Document()
	ready, reason := d.Ready()
	code := http.StatusOK
	if !ready {
		code = http.StatusServiceUnavailable
	}
	if r.URL.Query().Has("verbose") {
		v := d.verdict()
		writeJSON(w, code, readyView{ready, d.Supervisor.Stopping, d.Supervisor.Drained, v.Degraded, v.Conditions, v.Discovery})
		return
	}
	switch {
	case !ready:
		plain(w, code, reason)
	case reason != "":
		plain(w, code, "ready, degraded: "+reason)
	default:
		plain(w, code, "ready")
	}
}

func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text + "\n")) // the client may have gone away
}
