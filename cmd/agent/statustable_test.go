package main

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent/client"
	"github.com/pilotlight/pilotlight/internal/golden"
)

func TestStatusTable(t *testing.T) {
	now := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	for name, document := range map[string]string{
		"ready": `{
			"node": "sidecar~10.0.0.1~reviews-1.default~default.svc.cluster.local", "ready": true,
			"epochs": [{"epoch": 1, "family": 0, "restart_epoch": 1, "state": "serving",
				"started_at": "2026-11-21T19:40:29Z", "live_at": "2026-11-21T19:40:30Z", "pid": 4711}],
			"readiness": {"since": "2026-11-21T17:00:00Z", "changes": 1, "history": []},
			"last_handover_ns": 312456789, "recording": {"ended": 1, "newest": "2026-11-21T19:00:00Z"}, "failures": 0, "budget": 10, "stopping": false,
			"health": {"ready": true, "degraded": "CDS: rejected 1 of 4 updates: no such cluster", "conditions": [
				{"type": "ProcessUp", "status": true, "reason": "pid 4711", "since": "2026-11-21T17:00:00Z"},
				{"type": "CertificatesValid", "status": true, "reason": "valid", "since": "2026-11-18T20:00:00Z"}]},
			"events": [
				{"at": "2026-11-21T19:40:29Z", "note": "starting Envoy", "epoch": 1},
				{"at": "2026-11-21T19:40:30Z", "note": "handed over to a newcomer", "epoch": 1, "why": "certificates\nchanged"}],
			"certificates": [{"path": "/etc/certs/cert-chain.pem", "serial": "03e9", "not_after": "2026-11-22T19:59:00Z"}]}`,
		"not ready": `{
			"node": "sidecar~10.0.0.1~x~", "ready": false,
			"epochs": [
				{"epoch": 3, "family": 0, "restart_epoch": 0, "state": "draining",
					"started_at": "2026-11-21T19:59:58Z", "live_at": "2026-11-21T19:59:59Z", "pid": 12},
				{"epoch": 4, "family": 1, "restart_epoch": 0, "state": "starting"}],
			"handover": "starting", "recording": {"fault": "write /x: no space left on device", "ended": 2}, "refusal": {"reason": "exit status 1: no such field", "at": "2026-11-21T19:00:00Z"},
			"failures": 12, "budget": 10, "retry_at": "2026-11-21T20:00:03Z", "stopping": true,
			"health": {"ready": false, "hang": "silent", "conditions": [
				{"type": "AdminAnswers", "status": false, "reason": "no answer", "since": "0001-01-01T00:00:00Z"}]},
			"events": [{"at": "2026-11-21T19:59:58Z", "note": "stopping", "epoch": -1}],
			"last_failure": {"at": "2026-11-21T19:59:00Z", "epoch": 2, "exit": "exit status 1: cannot bind\u001b[31m", "lines": ["x"]},
			"certificates": [
				{"path": "/etc/certs/second.pem", "fault": "private key: is empty", "held": {"serial": "03e9", "not_after": "2026-11-22T19:59:00Z"}},
				{"path": "/etc/certs/cert-chain.pem", "not_after": "2026-11-19T15:00:00Z"},
				{"path": "/etc/istio/ingress-certs/tls.crt", "fault": "is missing"}]}`,
		"drained": `{"node": "x", "ready": false, "drained": true, "budget": 10, "readiness": {"since": "2026-11-21T19:59:50Z"}}`,
		"bypassed": `{"node": "x", "ready": false, "budget": 10, "health": {"ready": false,
			"bypassed": {"since": "2026-11-21T19:59:50Z", "port": 8080, "client": "10.0.0.7"}}}`,
		"nothing yet": `{"node": "x", "ready": false, "epochs": [], "events": null, "health": {"conditions": null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var s client.Status
			if err := json.Unmarshal([]byte(document), &s); err != nil {
				t.Fatal(err)
			}
			golden.Text(t, statusTable(s, now))
		})
	}
}

func TestRounded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 999 * time.Millisecond: "0s", time.Second: "1s", 61 * time.Second: "1m1s", time.Hour: "1h",
		time.Hour + 59*time.Second: "1h", 49*time.Hour + 30*time.Minute: "2d1h", 400 * 24 * time.Hour: "400d",
	} {
		if got := rounded(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestNarrator(t *testing.T) {
	began := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	n := narrator{from: began}
	for _, step := range []struct {
		after   time.Duration
		blocker string
		want    bool
	}{
		{0, "nobody listens", false},
		{quietLimit - 1, "nobody listens", false},
		{quietLimit, "nobody listens", true},
		{quietLimit + 1, "nobody listens", false},
		{time.Minute, "not ready", true},
		{time.Hour, "not ready", false},
		{time.Hour, "nobody listens", true},
	} {
		if got := n.tells(errors.New(step.blocker), began.Add(step.after)); got != step.want {
			t.Errorf("%q after %v: told is %v, want %v", step.blocker, step.after, got, step.want)
		}
	}
}
