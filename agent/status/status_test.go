package status

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/health"
)

// serving is the document of an agent whose Envoy serves.
func serving() Document {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Document{
		Node: "sidecar~10.0.0.1~x~",
		Supervisor: agent.Status{
			Epochs: []agent.EpochStatus{{Epoch: 3, Restart: 3, State: "serving", LiveAt: &at}},
			Budget: 10, Took: 300 * time.Millisecond, Counts: map[agent.Note]int{agent.HandedOver: 3},
		},
		Pids:    map[int]int{3: 4711},
		Expires: time.Unix(1_800_000_000, 0), Memory: 12 << 20,
		Health: health.Verdict{Ready: true, Conditions: []health.Condition{{Type: health.ProcessUp, Status: true, Reason: "pid 4711"}}},
	}
}

func ask(d Document, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	Handler(func() Document { return d }).ServeHTTP(recorder, httptest.NewRequest("GET", path, nil))
	return recorder
}

func TestReady(t *testing.T) {
	stopping, unready := serving(), serving()
	stopping.Supervisor.Stopping = true
	unready.Health = health.Verdict{Conditions: []health.Condition{
		{Type: health.ProcessUp, Status: true, Reason: "pid 4711"},
		{Type: health.CDSReceived, Reason: "not yet"},
	}}
	for _, test := range []struct {
		name     string
		document Document
		status   int
		body     string
	}{
		{"serving", serving(), 200, "ready\n"},
		{"stopping, though Envoy serves", stopping, 503, "stopping\n"},
		{"what is missing is named", unready, 503, "CDSReceived: not yet\n"},
		{"nothing has started", Document{}, 503, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ask(test.document, "/healthz/ready"); got.Code != test.status || got.Body.String() != test.body {
				t.Errorf("got %d %q, want %d %q", got.Code, got.Body, test.status, test.body)
			}
		})
	}
}

func TestStatusNamesProcesses(t *testing.T) {
	var got struct {
		Ready  bool
		Epochs []struct {
			Epoch, Pid int
			State      string
		}
	}
	if err := json.Unmarshal(ask(serving(), "/status").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Epochs) != 1 || got.Epochs[0].Pid != 4711 || got.Epochs[0].State != "serving" || !got.Ready {
		t.Errorf("got %+v, want the epoch with its process", got)
	}
}

func TestMetrics(t *testing.T) {
	text := ask(serving(), "/metrics").Body.String()
	for _, want := range []string{
		"# TYPE pilotlight_agent_ready gauge\npilotlight_agent_ready 1\n",
		`pilotlight_agent_events_total{event="handed_over_to_a_newcomer"} 3` + "\n",
		`pilotlight_agent_events_total{event="envoy_ended_unasked"} 0` + "\n",
		"pilotlight_agent_restart_budget 10\n",
		"pilotlight_agent_last_handover_seconds 0.3\n",
		"pilotlight_agent_certificate_expiry_timestamp_seconds 1800000000\n",
		"pilotlight_agent_resident_memory_bytes 12582912\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}
