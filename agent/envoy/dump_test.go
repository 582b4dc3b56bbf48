package envoy

import (
	"io"
	"net/http"
	"testing"
	"time"
)

// The documents are Envoy 1.40's own, masked: a rejected listener is there twice, once without its name.
func TestDumps(t *testing.T) {
	var body, asked string
	admin := fakeAdmin(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query().Get("resource") + " " + r.URL.Query().Get("name_regex")
		io.WriteString(w, body)
	})
	for _, test := range []struct {
		name, body string
		want       int64
	}{
		{"none", `{}`, 0},
		{"one is active", `{"configs": [{"name": "a", "active_state": {"version_info": "4"}}, {"name": "b"}, {}]}`, 1},
		{"all rejected", `{"configs": [{"name": "b"}, {}]}`, 0},
	} {
		body = test.body
		if got, err := admin.DynamicListeners(t.Context()); got != test.want || err != nil {
			t.Errorf("%s: %d, %v; want %d", test.name, got, err, test.want)
		}
	}
	const rejected = `{"name": "virtualInbound"}, {}`
	for _, test := range []struct {
		name, body string
		all        bool
		want       string
	}{
		{"none was sent", `{}`, false, ""},
		{"none was sent, and both are expected", `{}`, true, "virtualOutbound"},
		{"one was rejected", `{"configs": [{"name": "virtualOutbound", "active_state": {}}, ` + rejected + `]}`, false, "virtualInbound"},
		{"its last good one is active", `{"configs": [{"name": "virtualInbound", "active_state": {}}, ` + rejected + `]}`, false, ""},
	} {
		body = test.body
		if got, err := admin.missing(t.Context(), test.all); got != test.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", test.name, got, err, test.want)
		}
	}
	at := time.Date(2026, 11, 21, 21, 6, 14, 129e6, time.UTC)
	for _, test := range []struct {
		typeURL, body, asked string
		want                 time.Time
	}{
		{clusterType, `{"configs": [{"last_updated": "2026-11-21T21:06:14.129Z"}]}`, `dynamic_active_clusters ^outbound\|80$`, at},
		{listenerType, `{"configs": [{"active_state": {"last_updated": "2026-11-21T21:06:14.129Z"}}, {}]}`, `dynamic_listeners ^outbound\|80$`, at},
		{listenerType, `{"configs": [{"name": "b"}]}`, `dynamic_listeners ^outbound\|80$`, time.Time{}},
		{clusterType, `{}`, `dynamic_active_clusters ^outbound\|80$`, time.Time{}},
	} {
		body = test.body
		if got, err := admin.updated(t.Context(), test.typeURL, "outbound|80"); !got.Equal(test.want) || err != nil || asked != test.asked {
			t.Errorf("%s: %s, %v, asked %s; want %s, %s", test.typeURL, got, err, asked, test.want, test.asked)
		}
	}
	body = "<html>"
	if _, err := admin.DynamicListeners(t.Context()); err == nil {
		t.Error("no JSON: no error")
	}
	if _, err := admin.updated(t.Context(), clusterType, "a"); err == nil {
		t.Error("no JSON: no error")
	}
}

// The documents are Envoy 1.40's own.
func TestWaitsOf(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"nothing", `{}`, ""},
		{"no JSON", `<html>`, ""},
		{
			"a listener", `{"unready_targets_dumps": [{
			"name": "init manager Listener-local-init-manager virtualInbound 2010268625740115789",
			"target_names": ["shared target SdsApi default", "shared target RdsRouteConfigSubscription RDS init r80"]}]}`,
			"virtualInbound waits for SDS default, RDS r80",
		},
		{"another", `{"unready_targets_dumps": [{"name": "init manager Server", "target_names": ["target LDS"]}, {"name": "init manager x"}]}`, "Server waits for LDS"},
		{
			"many", `{"unready_targets_dumps": [{"name": "a", "target_names": ["x"]}, {"name": "b", "target_names": ["x"]},
			{"name": "c", "target_names": ["x"]}, {"name": "d", "target_names": ["x"]}]}`,
			"a waits for x; b waits for x; c waits for x; and more",
		},
	} {
		if got := waitsOf([]byte(test.body)); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
