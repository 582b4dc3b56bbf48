package status

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/pilotlight/pilotlight/agent"
)

// loopBound is how long the supervisor's loop may take for an answer: it only decides, and waits for nobody.
const loopBound = time.Second

// live is whether the agent itself does its work, whatever Envoy does: its loop answers, and it has not given up.
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

// ask returns once the loop has taken a wish.
func (c Config) ask(ctx context.Context, wish agent.Wish) error {
	ctx, cancel := context.WithTimeout(ctx, loopBound)
	defer cancel()
	return agent.Tell(ctx, c.AskCh, wish)
}

func (c Config) wish(wish agent.Wish, answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch d := c.Document(); {
		case d.Supervisor.Stopping:
			plain(w, http.StatusConflict, "stopping: it is too late")
		default:
			if err := c.ask(r.Context(), wish); err != nil {
				plain(w, http.StatusServiceUnavailable, err.Error())
				return
			}
			plain(w, http.StatusOK, answer)
		}
	}
}

func (c Config) quit(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "stopping")
	_ = http.NewResponseController(w).Flush() // before there is nobody left to answer
	c.Quit()
}

// local lets only a POST of a program on this host through. A browser on the host is none, for any page that it shows
// could make it ask, and neither is a proxy that passes on what others asked.
func local(next http.HandlerFunc) http.Handler {
	var origins http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(why string) {
			plain(w, http.StatusForbidden, fmt.Sprintf("%s is for programs on this host only: %s", r.URL.Path, why))
		}
		switch {
		case r.Method != http.MethodPost:
			w.Header().Set("Allow", http.MethodPost)
			plain(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s %s: want POST", r.Method, r.URL.Path))
		case !isLoopback(r.RemoteAddr):
			refuse("asked from " + r.RemoteAddr)
		case !isLoopback(r.Host):
			refuse(fmt.Sprintf("asked as host %q, want localhost or a loopback address", r.Host))
		case origins.Check(r) != nil || r.Header.Get("Origin") != "":
			refuse("asked by a browser")
		case r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "":
			refuse("passed on by a proxy")
		default:
			next(w, r)
		}
	})
}

// isLoopback takes an address or a name, with a port or without.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if len(host) > 1 && host[0] == '[' {
		host = host[1 : len(host)-1]
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
