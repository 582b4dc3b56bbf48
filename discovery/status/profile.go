package status

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Profiles of this process, at the paths and with the parameters of net/http/pprof. That package also compares two
// profiles of one kind, with a library of a quarter of a megabyte; go tool pprof -base does so too.

// longest is the longest time that a profile is recorded for.
const longest = 10 * time.Minute

// profiles lists the profiles, a path in each line.
func profiles(w http.ResponseWriter, _ *http.Request) {
	all := pprof.Profiles()
	slices.SortFunc(all, func(a, b *pprof.Profile) int { return strings.Compare(a.Name(), b.Name()) })
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, p := range all {
		_, _ = fmt.Fprintf(w, "/debug/pprof/%s?debug=1\t%d\n", p.Name(), p.Count()) // a caller that left needs no answer
	}
	_, _ = io.WriteString(w, "/debug/pprof/profile?seconds=30\n/debug/pprof/trace?seconds=1\n")
}

// profile writes what there is of a profile now, in pprof's form, or with debug=1 as text.
func profile(w http.ResponseWriter, r *http.Request) {
	name, query := r.PathValue("name"), r.URL.Query()
	p := pprof.Lookup(name)
	if p == nil {
		http.Error(w, fmt.Sprintf("%q is no profile: see /debug/pprof/", name), http.StatusNotFound)
		return
	}
	if query.Has("seconds") {
		http.Error(w, fmt.Sprintf("seconds is given, which only profile and trace have: two of %s are compared by go tool pprof -base", name), http.StatusBadRequest)
		return
	}
	debug, err := strconv.Atoi(cmp.Or(query.Get("debug"), "0"))
	if err != nil {
		http.Error(w, fmt.Sprintf("debug is %q, want 0, 1 or 2", query.Get("debug")), http.StatusBadRequest)
		return
	}
	if name == "heap" && cmp.Or(query.Get("gc"), "0") != "0" {
		runtime.GC()
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if debug == 0 {
		attach(w, name)
	}
	_ = p.WriteTo(w, debug) // a caller that left needs no answer
}

// recorded returns a page that records for some seconds, or until its caller leaves.
func recorded(name string, begin func(io.Writer) error, end func(), usually time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		lasts := usually
		if text := r.URL.Query().Get("seconds"); text != "" {
			seconds, err := strconv.ParseFloat(text, 64)
			if lasts = time.Duration(seconds * float64(time.Second)); err != nil || !(seconds > 0 && seconds <= longest.Seconds()) {
				http.Error(w, fmt.Sprintf("seconds is %q, want a number above 0, up to %.0f", text, longest.Seconds()), http.StatusBadRequest)
				return
			}
		}
		attach(w, name)
		if err := begin(w); err != nil { // somebody else records
			w.Header().Del("Content-Disposition")
			http.Error(w, fmt.Sprintf("%s not recorded: %v", name, err), http.StatusConflict)
			return
		}
		defer end()
		select {
		case <-time.After(lasts):
		case <-r.Context().Done():
		}
	}
}

func attach(w http.ResponseWriter, name string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

// addProfiles adds the pages.
func (p Pages) addProfiles(mux *http.ServeMux) {
	mux.Handle("GET /debug/pprof/{$}", p.guard(profiles))
	mux.Handle("GET /debug/pprof/{name}", p.guard(profile))
	mux.Handle("GET /debug/pprof/profile", p.guard(recorded("profile", pprof.StartCPUProfile, pprof.StopCPUProfile, 30*time.Second)))
	mux.Handle("GET /debug/pprof/trace", p.guard(recorded("trace", trace.Start, trace.Stop, time.Second)))
}
