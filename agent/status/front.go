package status

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"

	"github.com/pilotlight/pilotlight/internal/local"
)

// mutations are the POST requests that the owner's socket forwards: they change Envoy's logs and counters, not its
// traffic.
var mutations = []string{"/logging", "/reset_counters", "/reopen_logs"}

// front forwards reads to Envoy's admin. Any page in a browser and any user of this host can send requests to the front's
// port, so it forwards reads only. To Envoy itself it shows the metrics alone, if a listener is there for them.
func (c Config) front() http.Handler {
	envoy := forward(c.Envoy, c.Log)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch err := local.Request(r); {
		case err != nil:
			http.Error(w, "Envoy's admin is for programs on this host only: "+err.Error(), http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, fmt.Sprintf("%s %s is not forwarded to Envoy's admin: this port takes GET and HEAD; as the agent's user, "+
				"agent request takes POST of %q too", r.Method, r.URL.Path, mutations), http.StatusForbidden)
		case c.Scraped && r.URL.Path == scrapePath:
			envoy.ServeHTTP(w, r)
		default:
			if err := notEnvoy(c.Envoys, r); err != nil {
				http.Error(w, "Envoy's admin is for programs on this host only: "+err.Error()+
					"; the agent's user may read http://envoy"+r.URL.Path+" over agent-*.sock in configPath", http.StatusForbidden)
				return
			}
			envoy.ServeHTTP(w, r)
		}
	})
}

// forward forwards reads and mutations, one at a time. Envoy's main thread makes each answer as a whole, also one for a client that has
// left, and a probe of its admin waits for all those that it was asked for before.
func forward(admin func() http.RoundTripper, log *slog.Logger) http.Handler {
	turn := make(chan struct{}, 1)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "envoy"
		},
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			select {
			case turn <- struct{}{}:
				defer func() { <-turn }()
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			to := admin()
			if to == nil {
				return nil, fmt.Errorf("no Envoy is running")
			}
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), frontTimeout)
			response, err := to.RoundTrip(r.WithContext(ctx))
			if err != nil {
				cancel()
				return nil, err
			}
			response.Body = readBody{response.Body, cancel}
			return response, nil
		}),
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "Envoy's admin does not answer: "+err.Error(), http.StatusServiceUnavailable)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed(r.Method, r.URL.Path) {
			http.Error(w, fmt.Sprintf("%s %s is not forwarded to Envoy's admin: allowed are GET, HEAD, and POST of %q",
				r.Method, r.URL.Path, mutations), http.StatusForbidden)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// readBody is an answer of Envoy's, whose connection ends when it was read.
type readBody struct {
	io.ReadCloser
	end func()
}

func (b readBody) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// allowed reports whether a request is forwarded. It relies on Envoy, which answers 405 to a GET of a path that changes
// its state.
func allowed(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPost:
		return slices.Contains(mutations, path)
	}
	return false
}

// scrapePath is the path that Envoy's listener for Prometheus forwards.
const scrapePath = "/stats/prometheus"

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
