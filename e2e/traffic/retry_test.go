package traffic

import (
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A route gives up after its timeout, and tries again as often as it says.
func TestTimeoutsAndRetries(t *testing.T) {
	w := newWorld(t)
	slow, broken := w.Backend("slow"), w.Backend("broken")
	slow.Delay.Store(int64(3 * time.Second))
	broken.Status.Store(503)
	w.Service("slow.test", slow)
	w.Service("broken.test", broken)
	w.Apply(
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
	`,
		"VirtualService slow", "hosts: [slow.test]\nhttp: [{timeout: 200ms, route: [{destination: {host: slow.test}}]}]")
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.Status(504), "http://slow.test/") // by the VirtualService that discovery reads last
	watch := lab.StartStopwatch()
	if a, err := p.Get("http://slow.test/"); err != nil || a.Status != 504 {
		t.Errorf("a slow server: status %d, %v", a.Status, err)
	}
	watch.Within(t, 2*time.Second, "to give up after 200 ms")
	if n := p.Stat(`^cluster\.outbound\|80\|\|slow\.test\.upstream_rq_timeout$`); n == 0 {
		t.Error("Envoy counts no timeout")
	}
	for path, want := range map[string]int64{"/thrice": 4, "/code": 2, "/attempts": 1, "/": 1} {
		before := broken.Requests.Load()
		a, err := p.Get("http://broken.test" + path)
		w.Check(err)
		if n := broken.Requests.Load() - before; a.Status != 503 || n != want {
			t.Errorf("%s: status %d after %d requests, want 503 after %d", path, a.Status, n, want)
		}
	}
	if n := p.Stat(`^cluster\.outbound\|80\|\|broken\.test\.upstream_rq_retry$`); n != 4 {
		t.Errorf("Envoy counts %d retries, want 4", n)
	}
	w.replay(p)
}
