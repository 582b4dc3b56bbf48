package envoy

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTheClusterOfRecordsIsAddedOnce(t *testing.T) {
	const named = `"listeners": [{"access_log": "agent_records"}]`
	for _, test := range []struct {
		name, socket, bootstrap string
		extra                   []string
		want                    bool
	}{
		{"named", "/s", `{"static_resources": {` + named + `}}`, nil, true},
		{"named in YAML", "/s", "static_resources:\n  listeners:\n  - access_log: agent_records\n  clusters:\n  - name: api\n", nil, true},
		{"not named", "/s", `{}`, nil, false},
		{"no socket", "", `{"static_resources": {` + named + `}}`, nil, false},
		{"its own", "/s", `{"static_resources": {` + named + `, "clusters": [{"name": "agent_records"}]}}`, nil, false},
		{"its own in the other spelling", "/s", `{"staticResources": {` + named + `, "clusters": [{"name": "api"}, {"name": "agent_records"}]}}`, nil, false},
		{"its own in YAML", "/s", "static_resources:\n  clusters:\n  - name: agent_records\n", nil, false},
		{"malformed", "/s", `{"static_resources": agent_records`, nil, true},
		{"another overlay", "/s", `{"static_resources": {` + named + `}}`, []string{"--config-yaml", "{}"}, false},
	} {
		got := recordsFor(test.socket, test.bootstrap, Options{Extra: test.extra})
		if (got != "") != test.want || got != "" && (!json.Valid([]byte(got)) || strings.Contains(got, "SOCKET") || strings.Contains(got, "NAME")) {
			t.Errorf("%s: got %q", test.name, got)
		}
	}
	f := files{records: recordsFor("/s", named, Options{}), gate: newGate(nil).static("/g")}
	if !json.Valid([]byte(f.overlay())) || strings.Count(f.overlay(), `"clusters"`) != 1 {
		t.Errorf("with a gate: %s", f.overlay())
	}
}
