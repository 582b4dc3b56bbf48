package envoy

import "testing"

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
