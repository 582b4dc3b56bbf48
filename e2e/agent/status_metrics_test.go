package agent

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// metered is a standalone agent beside an application that tells metrics.
func metered(t *testing.T, application http.HandlerFunc) *standalone {
	t.Helper()
	server := httptest.NewServer(application)
	t.Cleanup(server.Close)
	s := newStandalone(t)
	s.env = []string{fmt.Sprintf(`ISTIO_PROMETHEUS_ANNOTATIONS={"scrape":"true","path":"/app","port":"%d"}`,
		server.Listener.Addr().(*net.TCPAddr).Port)}
	return s
}

func (s *standalone) serve() {
	s.t.Helper()
	s.launch()
	s.must(s.awaitRevision(1, handoverLimit))
	s.must(s.awaitAlone(lab.StopLimit))
}

// scrape reads all metrics as a Prometheus does that waits so long.
func (s *standalone) scrape(seconds string) (families map[string]*dto.MetricFamily, size int) {
	s.t.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://"+s.status+"/stats/prometheus", nil)
	s.must(err)
	request.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", seconds)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * time.Minute} // the agent keeps to the time
	response, err := client.Do(request)
	s.must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	s.must(err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err = parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("%s; what is merged cannot be parsed: %v", response.Status, err)
	}
	return families, len(text)
}

// scrapes reads all metrics until they are as wanted: after a start Envoy has its histograms after some seconds.
func (s *standalone) scrapes(wanted func(families map[string]*dto.MetricFamily) error) {
	s.t.Helper()
	s.must(lab.Eventually(handoverLimit, func() error {
		families, size := s.scrape("5")
		err := wanted(families)
		if err == nil {
			s.t.Logf("%d families, %d bytes", len(families), size)
		}
		return err
	}))
}

// up is whether a source's metrics are all there.
func up(families map[string]*dto.MetricFamily, source string) (value float64) {
	for _, m := range families["pilotlight_agent_metrics_source_up"].GetMetric() {
		if m.GetLabel()[0].GetValue() == source {
			return m.GetGauge().GetValue()
		}
	}
	return -1
}

// The metrics of a real Envoy, the agent and an application that speaks OpenMetrics come as one text. When Envoy is
// frozen, and when the application fails, the others are there.
func TestMergedMetrics(t *testing.T) {
	t.Parallel()
	fail := make(chan struct{})
	s := metered(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-fail:
			http.Error(w, "broken", http.StatusInternalServerError)
		default:
			w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0")
			io.WriteString(w, "# TYPE app_requests counter\napp_requests_total 7\n# EOF\n")
		}
	})
	s.serve()
	for range 3 { // so that a histogram of Envoy has values
		_, err := lab.Get("http://" + s.address + "/")
		s.must(err)
	}
	s.scrapes(func(families map[string]*dto.MetricFamily) error {
		if up(families, "envoy") != 1 || up(families, "application") != 1 {
			return fmt.Errorf("up: %v", families["pilotlight_agent_metrics_source_up"])
		}
		if got := families["app_requests_total"].GetMetric(); len(got) != 1 || got[0].GetCounter().GetValue() != 7 {
			return fmt.Errorf("the application's: %v", got)
		}
		for _, name := range []string{"envoy_http_downstream_rq_total", "envoy_server_live", "pilotlight_agent_ready", "envoy_cluster_upstream_rq_time"} {
			if families[name] == nil {
				return fmt.Errorf("lacks %s", name)
			}
		}
		return nil
	})
	envoy := s.pid("serving")
	detach := s.debug(envoy) // the agent would replace one that is stopped, perhaps before it is scraped
	if families, _ := s.scrape("5"); up(families, "envoy") != 0 || up(families, "application") != 1 || families["pilotlight_agent_ready"] == nil {
		t.Errorf("while Envoy is frozen: %v", families["pilotlight_agent_metrics_source_up"])
	}
	detach()
	s.must(syscall.Kill(envoy, syscall.SIGKILL))
	s.must(s.awaitStatus(handoverLimit, "a restart", func(a agentStatus) bool { return a.Counts["Envoy serves"] == 2 }))
	close(fail)
	s.scrapes(func(families map[string]*dto.MetricFamily) error {
		if up(families, "envoy") != 1 || up(families, "application") != 0 || families["envoy_server_live"] == nil {
			return fmt.Errorf("without the application: %v", families["pilotlight_agent_metrics_source_up"])
		}
		return nil
	})
}

// A storm of scrapes of a large Envoy does not make the agent grow.
func TestScrapeStorm(t *testing.T) {
	t.Parallel()
	s := metered(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "app 1\n") })
	s.mutate = func(text string) string {
		var more strings.Builder
		for i := range 500 {
			more.WriteString(", " + staticCluster(fmt.Sprintf("outbound|80||service-%d.default.svc.cluster.local", i), "127.0.0.1:9"))
		}
		end := strings.LastIndex(text, "]")
		return text[:end] + more.String() + text[end:]
	}
	s.configure(1)
	s.serve()
	before := lab.RSS(s.Pid)
	_, size := s.scrape("60")
	once := lab.RSS(s.Pid)
	var mu sync.Mutex
	codes, most := map[int]int{}, int64(0)
	var storm sync.WaitGroup
	for range 40 {
		storm.Go(func() {
			response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + s.status + "/stats/prometheus")
			if err != nil {
				return
			}
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, response.Body)
			mu.Lock()
			defer mu.Unlock()
			codes[response.StatusCode]++
			most = max(most, lab.RSS(s.Pid))
		})
	}
	storm.Wait()
	const mb = 1 << 20
	t.Logf("%.1f MB a scrape; the agent's resident memory: %.1f MB before, %.1f after one, at most %.1f in a storm of 40, %.1f after; answers %v",
		float64(size)/mb, float64(before)/mb, float64(once)/mb, float64(most)/mb, float64(lab.RSS(s.Pid))/mb, codes)
	const grown = 8 * mb
	if size < grown {
		t.Errorf("a scrape has %d bytes: an agent that keeps one would not be noticed", size)
	}
	if most-before > grown {
		t.Errorf("the agent grew from %d to %d bytes", before, most)
	}
	if codes[503] == 0 || codes[200] == 0 {
		t.Errorf("answers %v, want some refused", codes)
	}
	s.must(s.says(200, "ready"))
}
