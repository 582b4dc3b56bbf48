package e2e

import (
	"testing"
	"time"
)

// A route gives up after its timeout, and tries again as often as it says.
func TestTimeoutsAndRetries(t *testing.T) {
	w := newWorld(t)
	slow, broken := w.backend("slow"), w.backend("broken")
	slow.delay.Store(int64(3 * time.Second))
	broken.status.Store(503)
	w.service("slow.test", slow)
	w.service("broken.test", broken)
	w.apply(
		"VirtualService slow", "hosts: [slow.test]\nhttp: [{timeout: 200ms, route: [{destination: {host: slow.test}}]}]",
		"VirtualService broken", `
		hosts: [broken.test]
		http:
		- match: [{uri: {exact: /thrice}}]
		  retries: {attempts: 3, retryOn: 5xx}
		  route: [{destination: {host: broken.test}}]
		- match: [{uri: {exact: /code}}]
		  retries: {attempts: 1, retryOn: "503"}
		  route: [{destination: {host: broken.test}}]
		- match: [{uri: {exact: /attempts}}]
		  retries: {attempts: 3}
		  route: [{destination: {host: broken.test}}]
		- route: [{destination: {host: broken.test}}]
	`)
	p := w.sidecar("client", "")
	if a := p.until(status(504), "http://slow.test/"); a.took > 2*time.Second {
		t.Errorf("gave up after %v", a.took)
	}
	if n := p.stat(`^cluster\.outbound\|80\|\|slow\.test\.upstream_rq_timeout$`); n == 0 {
		t.Error("Envoy counts no timeout")
	}
	for path, want := range map[string]int64{"/thrice": 4, "/code": 2, "/attempts": 1, "/": 1} {
		before := broken.requests.Load()
		a, err := p.get("http://broken.test" + path)
		w.check(err)
		if n := broken.requests.Load() - before; a.status != 503 || n != want {
			t.Errorf("%s: status %d after %d requests, want 503 after %d", path, a.status, n, want)
		}
	}
	if n := p.stat(`^cluster\.outbound\|80\|\|broken\.test\.upstream_rq_retry$`); n != 4 {
		t.Errorf("Envoy counts %d retries, want 4", n)
	}
}
