//go:build wire

package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// prometheus is a Prometheus that scrapes two agents and discovery, and has the rules of deploy/prometheus.
type prometheus struct {
	t       *testing.T
	address string
	between func() // is called before each question that is asked again
}

func startPrometheus(t *testing.T, targets ...string) *prometheus {
	t.Helper()
	program := lab.Path("bin", "prometheus", "prometheus")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run make e2e-wire, which builds it", err)
	}
	dir := t.TempDir()
	var jobs strings.Builder
	for _, target := range targets {
		host, path, _ := strings.Cut(target, "/")
		fmt.Fprintf(&jobs, "- {job_name: %q, metrics_path: %q, static_configs: [{targets: [%q]}]}\n", target, "/"+path, host)
	}
	rules := lab.Path("deploy", "prometheus", "rules.yaml")
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n%s", rules, jobs.String())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{t: t, address: fmt.Sprintf("127.0.0.1:%d", lab.Port(t))}
	process, err := lab.Start(lab.Spec{Name: "prometheus", Dir: dir, Argv: []string{
		program, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", p.address,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Prometheus:\n%s", process.Log())
		}
		process.Stop(stopLimit)
	})
	if err := process.AwaitHTTP(stopLimit, "http://"+p.address+"/-/ready"); err != nil {
		t.Fatal(err)
	}
	return p
}

// get asks the API of Prometheus.
func (p *prometheus) get(path string, into any) error {
	response, err := http.Get("http://" + p.address + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s: %w", path, response.Status, body, err)
	}
	return json.Unmarshal(body, into)
}

type series struct {
	Metric map[string]string
	Value  [2]any
}

func (s series) number() float64 {
	text, _ := s.Value[1].(string)
	n, _ := strconv.ParseFloat(text, 64)
	return n
}

func (p *prometheus) query(expression string) ([]series, error) {
	var answer struct{ Data struct{ Result []series } }
	err := p.get("/api/v1/query?query="+url.QueryEscape(expression), &answer)
	return answer.Data.Result, err
}

// until queries until the answer is right.
func (p *prometheus) until(expression string, right func([]series) bool) {
	p.t.Helper()
	if err := lab.Eventually(stopLimit, func() error {
		p.between()
		got, err := p.query(expression)
		if err != nil || !right(got) {
			return fmt.Errorf("%s: %v, %w", expression, got, err)
		}
		return nil
	}); err != nil {
		p.t.Error(err)
	}
}

func between(low, high float64) func([]series) bool {
	return func(got []series) bool { return len(got) == 1 && got[0].number() >= low && got[0].number() <= high }
}

// Flagger's and Kiali's questions, the dashboards and the rules are answered by a real Prometheus that scrapes real agents and discovery.
func TestPrometheusAnswers(t *testing.T) {
	t.Parallel()
	m := lab.StartMesh(t, "none of them")
	status := map[string]int{"productpage": lab.Port(t), "details": lab.Port(t)}
	for i, name := range []string{"productpage", "details"} {
		m.Start(name, name, "v1", 11+i, "--statusPort", fmt.Sprint(status[name]))
		m.Check(m.Sidecars[name].AwaitReady())
	}
	m.Write("noted.yaml", `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: noted, namespace: default}
spec: {hosts: [noted.test], http: [{route: [{destination: {host: nowhere.test}}]}]}
`)
	p := startPrometheus(t, fmt.Sprintf("127.0.0.1:%d/stats/prometheus", status["productpage"]), fmt.Sprintf("127.0.0.1:%d/stats/prometheus", status["details"]),
		m.Discovery.Monitoring+"/metrics")
	send := func() {
		for range 8 {
			m.Get("productpage", "http://details:9080/details/0")
		}
		_, _ = lab.GetThrough(m.Proxies["productpage"], "http://ratings:9080/ratings/0") // 503: nobody serves it
	}
	m.Check(lab.Eventually(stopLimit, func() error { // so that there are samples before and after requests
		send()
		got, err := p.query(`count_over_time(istio_requests_total{reporter="source",response_code="200"}[1m]) >= 4`)
		if err != nil || len(got) == 0 {
			return fmt.Errorf("no requests are counted yet: %w", err)
		}
		return nil
	}))

	p.between = send
	// As Flagger judges a canary: success rate in percent, and the 99th percentile of durations.
	of := `reporter="destination",destination_workload_namespace="default",destination_workload=~"details.default"`
	p.until(`sum(rate(istio_requests_total{`+of+`,response_code!~"5.*"}[1m])) / sum(rate(istio_requests_total{`+of+`}[1m])) * 100`, between(100, 100))
	p.until(`histogram_quantile(0.99, sum(rate(istio_request_duration_milliseconds_bucket{`+of+`}[1m])) by (le))`, between(0.001, 10_000))

	// As Kiali draws its graph: edges by these labels, each of which a series must have, or it is left out.
	sides := []string{
		"source_workload_namespace", "source_workload", "source_canonical_service", "source_canonical_revision", "destination_service_namespace",
		"destination_service", "destination_service_name", "destination_workload_namespace", "destination_workload", "destination_canonical_service", "destination_canonical_revision",
	}
	labels := append(slices.Clone(sides), "request_protocol", "response_code", "response_flags")
	p.until(`sum(rate(istio_requests_total{reporter="source",source_workload_namespace="default"}[60s])) by (`+strings.Join(labels, ",")+`) > 0`, func(got []series) bool {
		edges := map[string]bool{}
		for _, s := range got {
			for _, label := range labels {
				if s.Metric[label] == "" {
					t.Errorf("an edge has no %s: %v", label, s.Metric)
				}
			}
			edges[s.Metric["source_workload"]+" "+s.Metric["source_canonical_service"]+" "+s.Metric["destination_service"]+" "+s.Metric["response_code"]+" "+s.Metric["request_protocol"]] = true
		}
		return edges["productpage.default productpage details.default.svc.cluster.local 200 http"] && edges["productpage.default productpage ratings.default.svc.cluster.local 503 http"]
	})
	p.until(`histogram_quantile(0.95, sum(rate(istio_request_duration_milliseconds_bucket{reporter="source",source_workload_namespace="default",response_code=~"2.."}[60s])) by (le,`+
		strings.Join(sides, ",")+`)) > 0`, func(got []series) bool { return len(got) == 1 })
	p.until(`sum(istio_requests_total{reporter="source",response_code="503",response_flags=~"U.*"})`, between(1, 1000))
	p.until(`sum(pilotlight_agent_istio_uncounted)`, between(0, 0))
	p.dashboardsAnswer()
	p.rulesAreEvaluated()
}

// dashboardsAnswer runs each query of the dashboards.
func (p *prometheus) dashboardsAnswer() {
	files, err := filepath.Glob(lab.Path("deploy", "grafana", "*.json"))
	if err != nil || len(files) != 2 {
		p.t.Fatalf("dashboards: %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			p.t.Fatal(err)
		}
		var dashboard struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &dashboard); err != nil || len(dashboard.Panels) == 0 {
			p.t.Fatalf("%s: %v", file, err)
		}
		for _, panel := range dashboard.Panels {
			for _, target := range panel.Targets {
				p.until(target.Expr, func(got []series) bool { return len(got) > 0 })
			}
		}
	}
}

// rulesAreEvaluated looks whether Prometheus could evaluate each rule, and has each metric that one names.
func (p *prometheus) rulesAreEvaluated() {
	type group struct {
		Rules []struct{ Name, Query, Health, LastError, LastEvaluation string }
	}
	if err := lab.Eventually(stopLimit, func() error {
		var answer struct{ Data struct{ Groups []group } }
		if err := p.get("/api/v1/rules", &answer); err != nil {
			return err
		}
		rules := 0
		for _, g := range answer.Data.Groups {
			for _, r := range g.Rules {
				if rules++; r.Health != "ok" {
					return fmt.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
				}
				for _, metric := range regexp.MustCompile(`\b(pilotlight|istio)_\w+`).FindAllString(r.Query, -1) {
					got, err := p.query("count(" + metric + ")")
					if err != nil || len(got) == 0 {
						return fmt.Errorf("%s: no such metric: %s, %w", r.Name, metric, err)
					}
				}
			}
		}
		if rules != 8 {
			return fmt.Errorf("%d rules", rules)
		}
		return nil
	}); err != nil {
		p.t.Error(err)
	}
}

// Each rule fires when it should, and not before, by promtool.
func TestRulesOfPrometheus(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		command := exec.Command(lab.Path("bin", "prometheus", "promtool"), args...)
		command.Dir = lab.Path("deploy", "prometheus")
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	rules, err := os.ReadFile(lab.Path("deploy", "prometheus", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(lab.Path("deploy", "prometheus", "rules_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(string(tests), "alertname: "+match[1]+"\n") {
			t.Errorf("%s has no test in which it fires", match[1])
		}
	}
}
