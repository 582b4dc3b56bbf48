package agent

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A server that answers with ever new statuses fills no memory: Envoy counts a bounded number of sets of labels, and the agent says what
// Istio's metrics lack.
func TestStatusesBeyondTheLimitAreNamed(t *testing.T) {
	t.Parallel()
	const log = `"access_log": [{"name": "stats", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.access_loggers.stats.v3.Config",
		"stats_scope": {"prefix": "istio", "sharing_name": "istio_http", "max_counters": 4},
		"counters": [
			{"stat": {"name": "requests_all_total", "tags": [{"name": "reporter", "value_format": "source"}]}, "value_fixed": 1},
			{"stat": {"name": "requests_total", "tags": [{"name": "reporter", "value_format": "source"}, {"name": "cluster", "value_format": "%UPSTREAM_CLUSTER_RAW%"},
				{"name": "response_code", "value_format": "%RESPONSE_CODE%"}, {"name": "response_flags", "value_format": "%RESPONSE_FLAGS%"}]}, "value_fixed": 1}]}}], `
	f := startFailingWith(t, func(text string) string {
		return strings.Replace(text, `"http_filters": [`, log+`"http_filters": [`, 1) // of the listener with all routes
	})
	for _, path := range []string{"/dead", "/empty", "/slow?30s", "/tls", "/broken", "/nowhere", "/nowhere"} { // six sets of labels
		f.get(path)
	}
	f.must(lab.Eventually(handoverLimit, func() error {
		response, err := http.Get("http://" + f.status + "/stats/prometheus")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || strings.Count(string(text), "\nistio_requests_total{") != 3 || strings.Contains(string(text), `istio_uncounted{reporter="source"} 0`) ||
			!strings.Contains(string(text), `pilotlight_agent_istio_uncounted{reporter="source"} `) || strings.Contains(string(text), "envoy_istio") {
			return fmt.Errorf("%w: %s", err, grepped(string(text), "istio"))
		}
		return nil
	}))
}

func grepped(text, word string) (out string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			out += line
		}
	}
	return out
}
