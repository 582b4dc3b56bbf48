package status

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"
)

// mutations are the POST requests that are forwarded: they change what Envoy tells, not what it serves.
var mutations = []string{"/logging", "/reset_counters", "/reopen_logs"}

// Front forwards requests to the admin of the newest epoch. admin returns its transport, nil while no Envoy runs.
func Front(admin func() http.RoundTripper, log *slog.Logger) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "envoy"
		},
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			to := admin()
			if to == nil {
				return nil, fmt.Errorf("no Envoy is running")
			}
			return to.RoundTrip(r)
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

// allowed relies on Envoy answering 405 to a GET of whatever changes it.
func allowed(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPost:
		return slices.Contains(mutations, path)
	}
	return false
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }
