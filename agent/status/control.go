package status

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/internal/local"
)

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
