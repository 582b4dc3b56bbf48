package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/metrics"
	"github.com/pilotlight/pilotlight/agent/probe"
	"github.com/pilotlight/pilotlight/internal/local"
)

// Config holds the parts of the agent that the status port uses.
type Config struct {
	Document func() Document  // cheap
	AskCh    chan<- agent.Ask // the supervisor's
	Quit     func()           // stops the agent, as SIGTERM does
	// Upgrade has another image of the agent take over, at a path or, if it is empty, at the agent's own. It returns the image's
	// version, or why it cannot.
	Upgrade     func(ctx context.Context, path string) (version string, err error)
	Envoy       func() http.RoundTripper // to the admin of the epoch that serves; nil while none runs
	Workload    metrics.Workload         // of Istio's metrics
	Application *metrics.Application     // whose metrics are merged; nil for none
	Probes      probe.Probes             // of the application
	Envoys      Envoys
	Remake      func() error                           // see Place
	Why         func(ctx context.Context) (Why, error) // asks Envoy why requests failed
	Page        func() Page
	Scraped     bool // a listener of Envoy forwards /stats/prometheus to the front
	Log         *slog.Logger

	owner bool // for the owner's socket, on which every request may write
}

// Envoys tells the Envoys of this host from other programs. Envoy sends to the agent what a client outside sends through it,
// wherever discovery lets a route lead, so it has the rights of a stranger.
type Envoys interface {
	// Sends reports whether an Envoy has the connection from peer to own. An error means that nobody can tell.
	Sends(peer, own netip.AddrPort) (bool, error)
	// RefuseOwn returns an error for the pid of the agent's own Envoy.
	RefuseOwn(pid int) error
}

// notEnvoy returns an error if Envoy sends a request, or if that cannot be ruled out. A connection has one request.
func notEnvoy(envoys Envoys, r *http.Request) error {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return err
	}
	own, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return errors.New("not asked over TCP")
	}
	switch sent, err := envoys.Sends(peer, own.AddrPort()); {
	case err != nil:
		return fmt.Errorf("it may have been sent by Envoy: %w", err)
	case sent:
		return errors.New("sent by Envoy, which forwards requests of other clients")
	}
	return nil
}

// Handler is the status port.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz/ready", c.ready)
	mux.HandleFunc("GET /healthz/live", c.live)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, c.Document().view(time.Now()))
	})
	why := &asking{ask: c.Why}
	mux.Handle("GET /why", c.readOnly(why))
	mux.Handle("GET /{$}", c.readOnly(c.page(why)))
	mux.Handle("GET /page.css", c.readOnly(http.HandlerFunc(c.style)))
	mux.HandleFunc("GET /favicon.ico", noIcon)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metrics.TextFormat)
		c.Document().writeMetrics(w, time.Now())
	})
	if !c.owner { // only one merger, since it has the limits of all scrapes together
		mux.Handle("GET /stats/prometheus", metrics.Handler(metrics.Config{
			Envoy: c.Envoy, Application: c.Application, Workload: c.Workload, Log: c.Log,
			Agent: func(to io.Writer, now time.Time) { c.Document().writeMetrics(to, now) },
		}))
	}
	mux.Handle("/drain", c.localOnly(c.command(agent.Drain, "drained: POST /undrain ends it")))
	mux.Handle("/undrain", c.localOnly(c.command(agent.Resume, "resuming: ready once an Envoy serves that was not drained")))
	mux.Handle("/quitquitquit", c.localOnly(c.quit))
	if c.owner {
		mux.Handle("/upgrade", c.localOnly(c.upgrade))
	}
	mux.Handle("/app-health/", c.Probes)
	mux.Handle("/app-lifecycle/", c.Probes)
	return mux
}

// noIcon answers a browser, which asks for an icon next to each page: an error would be a fault in its console.
func noIcon(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

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

// loopBound is the time limit for an answer of the supervisor's loop, which only decides and never waits; drainBound is that of the
// command Drain, for which Envoy's admin has two seconds.
const (
	loopBound  = time.Second
	drainBound = loopBound + 2*time.Second
)

// live reports whether the agent itself works, independent of Envoy: its loop answers, and it has not given up.
func (c Config) live(w http.ResponseWriter, r *http.Request) {
	if gaveUp := c.Document().Supervisor.GaveUp; gaveUp != "" {
		plain(w, http.StatusServiceUnavailable, gaveUp)
		return
	}
	if err := c.ask(r.Context(), agent.Nothing); err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	plain(w, http.StatusOK, "live")
}

// ask sends a command to the loop, and returns once the loop has carried it out.
func (c Config) ask(ctx context.Context, command agent.Command) error {
	bound := loopBound
	if command == agent.Drain {
		bound = drainBound
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return agent.Tell(ctx, c.AskCh, command)
}

func (c Config) command(command agent.Command, answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch d := c.Document(); {
		case d.Supervisor.Stopping:
			plain(w, http.StatusConflict, "stopping: it is too late")
		default:
			if err := c.ask(r.Context(), command); err != nil {
				plain(w, http.StatusServiceUnavailable, err.Error())
				return
			}
			plain(w, http.StatusOK, answer)
		}
	}
}

func (c Config) quit(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "stopping")
	_ = http.NewResponseController(w).Flush() // before the agent ends
	c.Quit()
}

// upgrade answers 202 if the image will take over, and 409 with the reason if it cannot.
func (c Config) upgrade(w http.ResponseWriter, r *http.Request) {
	if c.Document().Supervisor.Stopping {
		plain(w, http.StatusConflict, "stopping: it is too late")
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(upgradeTimeout))
	version, err := c.Upgrade(r.Context(), r.URL.Query().Get("binary"))
	if err != nil {
		plain(w, http.StatusConflict, err.Error())
		return
	}
	plain(w, http.StatusAccepted, version)
}

// upgradeTimeout bounds the answer: another image has ten seconds for its own.
const upgradeTimeout = 30 * time.Second

// localOnly accepts only a POST from a program on this host. It refuses browsers, since any page in a browser could
// send the request, and proxies that forward requests of other clients.
func (c Config) localOnly(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(why string) {
			plain(w, http.StatusForbidden, fmt.Sprintf("%s is for programs on this host only: %s", r.URL.Path, why))
		}
		switch {
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			plain(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s %s: want POST", r.Method, r.URL.Path))
		case c.owner:
			next(w, r)
		case local.Request(r) != nil:
			refuse(local.Request(r).Error())
		case r.Header.Get("Origin") != "": // the agent serves no page that could send this
			refuse("asked by a browser")
		default:
			if err := notEnvoy(c.Envoys, r); err != nil {
				refuse(err.Error() + "; the agent's user may post to http://agent" + r.URL.Path + " over agent-*.sock in configPath")
				return
			}
			next(w, r)
		}
	})
}
