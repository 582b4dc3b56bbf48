package status

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Proxies is who is connected and what they were told.
type Proxies interface {
	Clients() []ads.Client
	Pushes() []ads.Push
	Dump(proxy string) (map[string][]json.RawMessage, error)
}

// Pages is what the pages show. Its functions are called for each request, from any goroutine.
type Pages struct {
	Ready   func() bool        // whether every source has told what it knew
	Mesh    func() *model.Mesh // the newest, nil before the first
	Proxies Proxies
	// Exposed lets callers from beyond this host see /debug.
	Exposed bool
}

// Handler serves the pages.
func (p Pages) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !p.Ready() {
			http.Error(w, "not ready: the sources have not synced yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n") // a caller that left needs no answer
	})
	for path, value := range map[string]func() any{
		"/v1/registration":   func() any { return registration(p.mesh()) },
		"/debug/registryz":   func() any { return registry(p.mesh()) },
		"/debug/endpointz":   func() any { return registration(p.mesh()) },
		"/debug/configz":     func() any { return objects(p.mesh()) },
		"/debug/adsz":        func() any { return p.Proxies.Clients() },
		"/debug/syncz":       func() any { return syncStates(p.Proxies.Clients()) },
		"/debug/push_status": func() any { return p.Proxies.Pushes() },
	} {
		mux.Handle("GET "+path, p.guard(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, value()) }))
	}
	mux.Handle("GET /debug/config_dump", p.guard(p.configDump))
	mux.Handle("GET /debug/pprof/", p.guard(pprof.Index))
	mux.Handle("GET /debug/pprof/profile", p.guard(pprof.Profile))
	mux.Handle("GET /debug/pprof/trace", p.guard(pprof.Trace))
	return mux
}

// Monitoring serves what a monitoring system reads.
func Monitoring(version any, metrics ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(metrics...)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, version) })
	return mux
}

func (p Pages) mesh() *model.Mesh {
	if m := p.Mesh(); m != nil {
		return m
	}
	return &model.Mesh{}
}

func (p Pages) configDump(w http.ResponseWriter, r *http.Request) {
	proxy := r.URL.Query().Get("proxyID")
	if proxy == "" {
		http.Error(w, "proxyID is missing, want ?proxyID=NODE", http.StatusBadRequest)
		return
	}
	resources, err := p.Proxies.Dump(proxy)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	writeJSON(w, resources)
}

func (p Pages) guard(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		caller, err := netip.ParseAddrPort(r.RemoteAddr)
		if !p.Exposed && (err != nil || !caller.Addr().Unmap().IsLoopback()) {
			http.Error(w, "debug pages answer on loopback only", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, fmt.Sprintf("encode: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // a caller that left needs no answer
}
