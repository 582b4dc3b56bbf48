package agent

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// The agent probes the application in the kubelet's stead, by every way, and answers as it does.
func TestApplicationProbes(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/live" || r.Header.Get("X-Probe") != "1" {
			http.Error(w, "asked "+r.URL.Path, http.StatusTeapot)
		}
	}))
	defer web.Close()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer secure.Close()
	port := func(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }
	s := newStandalone(t)
	s.env = []string{fmt.Sprintf(`ISTIO_KUBE_APP_PROBERS={
		"/app-health/web/livez": {"httpGet": {"path": "/live", "port": %s, "httpHeaders": [{"name": "X-Probe", "value": "1"}]}, "timeoutSeconds": 5},
		"/app-health/web/readyz": {"httpGet": {"path": "/ready", "port": %[1]s}, "timeoutSeconds": 5},
		"/app-health/secure/livez": {"httpGet": {"path": "/", "port": %s, "scheme": "HTTPS"}, "timeoutSeconds": 5},
		"/app-health/tcp/livez": {"tcpSocket": {"port": %[1]s}},
		"/app-health/gone/livez": {"tcpSocket": {"port": 1}},
		"/app-health/rpc/livez": {"grpc": {"port": %[3]s}, "timeoutSeconds": 5}
	}`, port(web.Listener.Addr().String()), port(secure.Listener.Addr().String()), port(lab.HealthServer(t)))}
	s.serve()
	for path, want := range map[string]string{
		"web/livez": "200 ", "web/readyz": "418 asked /ready", "secure/livez": "200 ", "tcp/livez": "200 connected",
		"gone/livez": "500 dial tcp 127.0.0.1:1: connect: connection refused", "rpc/livez": "200 SERVING", "other/livez": "404 ",
	} {
		response, err := fresh.Get("http://" + s.status + "/app-health/" + path)
		s.must(err)
		var body [200]byte
		n, _ := response.Body.Read(body[:])
		response.Body.Close()
		if got := fmt.Sprint(response.StatusCode, " ", string(body[:n])); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// The past of a crash is there to be read: when it was not ready and why, how Envoy ended, and what it last said.
func TestStatusTellsThePast(t *testing.T) {
	t.Parallel()
	s := startStandalone(t, "--proxyLogLevel", "info")
	s.must(syscall.Kill(s.pid("serving"), syscall.SIGKILL))
	s.must(s.awaitStatus(handoverLimit, "a restart", func(a agentStatus) bool { return a.Counts["Envoy serves"] == 2 }))
	s.must(s.says(200, "ready"))
	body, err := lab.Get("http://" + s.status + "/status")
	s.must(err)
	var status struct {
		Epochs []struct {
			Pid int
			Age float64 `json:"age_seconds"`
		}
		Failures, Budget int
		Left             int `json:"budget_left"`
		LastFailure      struct {
			Epoch      int
			What, Exit string
			Lines      []string
		} `json:"last_failure"`
		Readiness struct {
			Changes int
			History []struct {
				Ready  bool
				Reason string
			}
		}
		Memory int64 `json:"memory_bytes"`
	}
	s.must(json.Unmarshal([]byte(body), &status))
	if f := status.LastFailure; f.What != "Envoy ended unasked" || !strings.Contains(f.Exit, "signal 9") || len(f.Lines) == 0 {
		t.Errorf("last failure: %+v", f)
	}
	var history []bool
	for _, h := range status.Readiness.History {
		history = append(history, h.Ready)
		if !h.Ready && h.Reason == "" {
			t.Errorf("unready without a reason: %+v", status.Readiness)
		}
	}
	if want := []bool{false, true, false, true}; fmt.Sprint(history) != fmt.Sprint(want) || status.Readiness.Changes != 3 {
		t.Errorf("history %+v, want %v", status.Readiness, want)
	}
	if status.Failures != 1 || status.Left != status.Budget-1 || len(status.Epochs) != 1 || status.Epochs[0].Pid == 0 || status.Epochs[0].Age <= 0 || status.Memory == 0 {
		t.Errorf("status: %s", body)
	}
	live, err := lab.Get("http://" + s.status + "/healthz/live")
	if err != nil || live != "live\n" {
		t.Errorf("live: %q, %v", live, err)
	}
}
