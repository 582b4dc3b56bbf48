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
	gateway, gatewayStatus := startGateway(m)
	p := startPrometheus(t, fmt.Sprintf("127.0.0.1:%d/stats/prometheus", status["productpage"]), fmt.Sprintf("127.0.0.1:%d/stats/prometheus", status["details"]),
		fmt.Sprintf("127.0.0.1:%d/stats/prometheus", gatewayStatus), m.Discovery.Monitoring+"/metrics")
	send := func() {
		for range 8 {
			m.Get("productpage", "http://details:9080/details/0")
		}
		_, _ = lab.GetThrough(m.Proxies["productpage"], "http://ratings:9080/ratings/0") // 503: nobody serves it
		_, _ = lab.GetThrough(gateway, "http://details.test/details/0")
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
	p.until(flagger(flaggerSuccess, "default", "details.default"), between(100, 100))
	p.until(flagger(flaggerDuration, "default", "details.default"), between(0.001, 10_000))
	p.kialiAnswers(map[string]map[string]string{ // of what reaches a server without mutual TLS, nobody knows the sender
		"unknown -> unknown at details.default": {"destination_canonical_service": "details", "request_protocol": "http", "response_code": "200", "response_flags": "-"},
	}, map[string]map[string]string{
		"productpage.default -> details at unknown": {"source_canonical_service": "productpage", "destination_service": "details.default.svc.cluster.local", "response_code": "200", "request_protocol": "http"},
		"productpage.default -> ratings at unknown": {"destination_service": "ratings.default.svc.cluster.local", "response_code": "503", "request_protocol": "http"},
		"gateway.default -> details at unknown":     {"source_canonical_service": "gateway", "destination_service": "details.default.svc.cluster.local", "response_code": "200", "request_protocol": "http"},
	})
	p.until(`sum(istio_requests_total{reporter="source",response_code="503",response_flags=~"U.*"})`, between(1, 1000))
	p.until(`sum(pilotlight_agent_istio_uncounted)`, between(0, 0))
	p.dashboardsAnswer()
	p.rulesAreEvaluated()
}

// startGateway starts the agent of a gateway that leads to details, and returns its address and the port of its agent.
func startGateway(m *lab.Mesh) (address string, status int) {
	m.T.Helper()
	port, status := lab.Port(m.T), lab.Port(m.T)
	m.Write("gateway.yaml", fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: door, namespace: default}
spec: {selector: {app: gateway}, servers: [{port: {number: %d, name: http, protocol: HTTP}, hosts: [details.test]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: door, namespace: default}
spec: {hosts: [details.test], gateways: [door], http: [{route: [{destination: {host: details}}]}]}
`, port))
	gateway, err := m.Sidecar(lab.Workload{
		Role: "router", Name: "gateway", App: "gateway", Version: "v1", IP: m.Address(21), Discovery: m.Discovery.GRPC, Flags: []string{"--statusPort", fmt.Sprint(status)},
	})
	m.Check(err)
	m.T.Cleanup(func() { gateway.Stop(stopLimit) })
	m.Check(gateway.AwaitReady())
	return fmt.Sprintf("%s:%d", m.Address(21), port), status
}

// kialiAnswers asks for the graph of the namespace default as Kiali does: what its workloads get, and what they send.
func (p *prometheus) kialiAnswers(gets, sends map[string]map[string]string) {
	p.t.Helper()
	for _, r := range kialiReporters {
		unserved, incoming, outgoing := kiali("istio_requests_total", kialiRequests, "", r.reporter, "default")
		p.edges(unserved, kialiRequests, nil) // all that is sent to this namespace is sent in it
		p.edges(incoming, kialiRequests, gets)
		p.edges(outgoing, kialiRequests, sends)
		inside, out := kialiDuration(r.reporter, "default")
		p.edges(inside, kialiTimes, edgesOf(gets))
		p.edges(out, kialiTimes, edgesOf(sends))
	}
}

// edgesOf are edges without what their labels must be.
func edgesOf(edges map[string]map[string]string) map[string]map[string]string {
	out := map[string]map[string]string{}
	for edge := range edges {
		out[edge] = map[string]string{}
	}
	return out
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
	withoutFor(t, string(rules), string(tests))
	for _, match := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(string(tests), "alertname: "+match[1]+"\n") {
			t.Errorf("%s has no test in which it fires", match[1])
		}
	}
}

// withoutFor takes the time that a fault must last from one rule after the other: the rules' tests must fail without each.
func withoutFor(t *testing.T, rules, tests string) {
	t.Helper()
	lasting := regexp.MustCompile(`(?m)^ +for: .*\n`).FindAllStringIndex(rules, -1)
	if len(lasting) != 7 {
		t.Errorf("%d rules have a for, want 7", len(lasting))
	}
	for _, at := range lasting {
		dir := t.TempDir()
		for name, text := range map[string]string{"rules.yaml": rules[:at[0]] + rules[at[1]:], "rules_test.yaml": tests} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		command := exec.Command(lab.Path("bin", "prometheus", "promtool"), "test", "rules", "rules_test.yaml")
		command.Dir = dir
		if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), "FAILED") {
			before := strings.Split(rules[:at[0]], "- alert: ")
			name, _, _ := strings.Cut(before[len(before)-1], "\n")
			t.Errorf("no test of the rules fails where %s has no for: %v, %s", name, err, out)
		}
	}
}
