package traffic

import (
	"math"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// Faults delay and abort the share of requests that they name.
func TestFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.Backend("v1")
	w.Service("app.test", b)
	w.Apply("VirtualService app", `
		hosts: [app.test]
		http:
		- match: [{uri: {exact: /abort}}]
		  fault: {abort: {httpStatus: 418, percentage: {value: 100}}}
		  route: [{destination: {host: app.test}}]
		- match: [{uri: {exact: /half}}]
		  fault: {abort: {httpStatus: 500, percentage: {value: 50}}}
		  route: [{destination: {host: app.test}}]
		- match: [{uri: {exact: /delay}}]
		  fault: {delay: {fixedDelay: 300ms, percentage: {value: 100}}}
		  route: [{destination: {host: app.test}}]
		- match: [{uri: {exact: /nothing}}]
		  fault: {abort: {httpStatus: 500}}
		  route: [{destination: {host: app.test}}]
	`)
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.Status(418), "http://app.test/abort")
	// Envoy's timers begin with its loop's idea of now, which may be some milliseconds old.
	if a := p.Until(lab.Status(200), "http://app.test/delay"); a.Took < 250*time.Millisecond {
		t.Errorf("the delayed answer came after %v", a.Took)
	}
	p.Until(lab.Status(200), "http://app.test/nothing")
	failed := 0
	const requests = 200
	for range requests {
		a, err := p.Get("http://app.test/half")
		w.Check(err)
		if a.Status == 500 {
			failed++
		}
	}
	if bound := 5 * math.Sqrt(requests*0.25); math.Abs(float64(failed)-requests/2) > bound {
		t.Errorf("%d of %d requests were aborted, want half", failed, requests)
	}
	if n := p.Stat(`fault\.aborts_injected$`); n != int64(failed)+1 {
		t.Errorf("Envoy counts %d aborts, want %d", n, failed+1)
	}
	if n := p.Stat(`fault\.delays_injected$`); n != 1 {
		t.Errorf("Envoy counts %d delays, want 1", n)
	}
	w.replay(p)
}
