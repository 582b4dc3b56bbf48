package status

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/pilotlight/pilotlight/internal/local"
)

// front shows a browser the page for people, and a program at / the list of pages.
func (p Pages) front(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/" && (p.Page == nil || !strings.Contains(r.Header.Get("Accept"), "text/html")):
		index(w, r)
	case p.Page == nil:
		http.NotFound(w, r)
	default:
		if err := local.Request(r); err != nil {
			http.Error(w, fmt.Sprintf("the page is for browsers on this host only: %v", err), http.StatusForbidden)
			return
		}
		p.Page.ServeHTTP(w, r)
	}
}

// index lists the pages.
func index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, indexText) // a caller that left needs no answer
}

const indexText = `/                               a page of the mesh, for browsers on this host
/ready                          whether discovery is ready; with ?verbose, what is wrong besides
/v1/registration                services with their endpoints
/debug/registryz                services
/debug/endpointz                services with their endpoints, as /v1/registration
/debug/configz                  configuration objects, as they are served
/debug/config                   files of --configDir: objects that are refused, kept or waited for
/debug/sources                  sources, with their faults
/debug/notes                    what is to be said of the configuration
/debug/adsz                     connected proxies
/debug/proxies                  the same with states and notes, the worst first, as discovery status shows them
/debug/syncz                    what each proxy was sent, and has accepted
/debug/push_status              the last pushes
/debug/config_dump?proxyID=ID   the resources that a proxy was sent
/debug/explain?from=A&to=B      what becomes of one request, as discovery explain shows it; with output=text in words
/debug/pprof/                   profiles of discovery itself
/metrics, /version              at --monitoringAddr
`
