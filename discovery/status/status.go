package status

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"

	"github.com/pilotlight/pilotlight/discovery/ads"
)

// Handler serves the pages. ready says whether every source has told what it knew; clients lists the connected
// proxies. Both are called for each request, from any goroutine.
func Handler(ready func() bool, clients func() []ads.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "not ready: the sources have not synced yet", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ready\n") // a caller that left needs no answer
	})
	mux.Handle("GET /debug/adsz", loopbackOnly(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, clients())
	}))
	return mux
}

func loopbackOnly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if caller, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !caller.Addr().Unmap().IsLoopback() {
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
