package ads

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A VirtualService that Envoy refuses, with all routes of its port: the host keeps its last good route where there is one,
// answers 503 in an Envoy that starts, and all others are served and change as ever.
func TestIsolatesWhatEnvoyRefuses(t *testing.T) {
	t.Parallel()
	overADS(t, func(l *envoyLab) {
		host, port, _ := strings.Cut(l.backend["two"], ":")
		l.Write("second.yaml", fmt.Sprintf(entry, "second", "second.test", host, port))
		status := func(name string) string {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.proxy+"/", nil)
			l.Check(err)
			request.Host = name
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err.Error()
			}
			response.Body.Close()
			return response.Status
		}
		serves := func(what, name, want string) {
			t.Helper()
			l.Check(lab.Eventually(lab.StopLimit, func() error {
				if got := status(name); got != want {
					return fmt.Errorf("%s: %s answers %q, want %q", what, name, got, want)
				}
				return nil
			}))
		}
		route := func(name, match string) {
			l.Write(strings.ReplaceAll(name, ".", "-")+"-rule.yaml", fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %q, namespace: default}
spec:
  hosts: [%s]
  http:
  - match: [{uri: %s}]
    route: [{destination: {host: %s}}]
`, strings.ReplaceAll(name, ".", "-"), name, match, name))
		}
		route("second.test", "{prefix: /}")
		e := l.start(0)
		serves("at first", "second.test", "200 OK")
		refused := func() error {
			var clients []ads.Client
			if err := l.debug("adsz", &clients); err != nil {
				return err
			}
			for _, c := range clients {
				if len(c.Types) < 4 {
					return fmt.Errorf("%s has not asked for routes yet", c.Peer)
				}
				routes := c.Types[3]
				if len(routes.Refused) != 1 || !strings.HasPrefix(routes.Refused[0].Host, "second.test") || routes.Refused[0].Text == "" {
					text, _ := json.Marshal(routes)
					return fmt.Errorf("routes %s, want one refusal, of second.test", text)
				}
			}
			return nil
		}
		route("second.test", `{regex: "`+tooLong+`"}`)
		l.Check(lab.Eventually(lab.StopLimit, refused))
		l.Check(lab.Eventually(lab.StopLimit, func() error {
			notes, err := lab.Get("http://" + l.Discovery.HTTP + "/debug/notes")
			if want := "second-test-rule.yaml"; err == nil && (!strings.Contains(notes, "refused-by-proxy") || !strings.Contains(notes, want)) {
				return fmt.Errorf("/debug/notes does not name %s: %s", want, notes)
			}
			return err
		}))
		serves("the last good form stays", "second.test", "200 OK")
		route(echoHost, "{prefix: /nowhere}")
		serves("another host changes", echoHost, "404 Not Found")
		if n := l.stat(e, "cluster_manager.cds.update_rejected"); n != 0 {
			t.Errorf("%d CDS were refused", n)
		}
		e.Stop(lab.StopLimit)
		began := time.Now()
		l.start(0)
		serves("it starts: another one", echoHost, "404 Not Found")
		t.Logf("an Envoy that starts serves others %s after its start", time.Since(began))
		serves("it starts: the refused one", "second.test", "503 Service Unavailable")
		route(echoHost, "{prefix: /}")
		l.answers("one")
		l.Check(lab.Eventually(lab.StopLimit, refused))
		l.measures(`pilotlight_xds_refused_parts{type="rds"} 1`)
		route("second.test", "{prefix: /}")
		serves("it is mended", "second.test", "200 OK")
		l.clients(1)
	})
}

// tooLong is a regex whose program is longer than what Envoy takes unless its bootstrap says otherwise.
var tooLong = "/" + strings.Repeat("[a-z]+/", 45) + ".*"
