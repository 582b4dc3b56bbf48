package traffic

import (
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// More than a service may get at once is refused at once.
func TestCircuitBreaking(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.Backend("v1")
	b.Delay.Store(int64(500 * time.Millisecond))
	w.Service("app.test", b)
	w.Apply("DestinationRule app", "host: app.test\ntrafficPolicy: {connectionPool: {tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1}}}")
	p := w.SidecarEnvoy("client", "")
	p.Until(lab.Status(200), "http://app.test/")
	statuses := make(chan int)
	for range 10 {
		go func() {
			a, _ := p.Get("http://app.test/")
			statuses <- a.Status
		}()
	}
	count := map[int]int{}
	for range 10 {
		count[<-statuses]++
	}
	if count[200] == 0 || count[503] == 0 || count[200]+count[503] != 10 {
		t.Errorf("10 requests at once were answered %v, want some 200 and some 503", count)
	}
	if n := p.Stat(`^cluster\.outbound\|80\|\|app\.test\.upstream_rq_pending_overflow$`); n != int64(count[503]) {
		t.Errorf("Envoy counts %d overflows, want %d", n, count[503])
	}
	b.Delay.Store(0)
	w.atOnce = 1
	w.replay(p)
}
