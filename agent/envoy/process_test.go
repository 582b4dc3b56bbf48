package envoy

import (
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent"
)

// An order that came before Leave is carried out: the next image does not give it again.
func TestLeaveAwaitsADrain(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan struct{})
	c := served(fakeAdmin(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/drain_listeners" {
			close(begun)
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
	}), time.Now())
	child := exec.Command("sleep", "600")
	must(t, child.Start())
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	c.pid, c.child = child.Process.Pid, child.Process
	orders, left := make(chan agent.Order), make(chan agent.Exit)
	go func() { left <- c.run(orders, func(agent.Report) {}) }()
	asked := time.Now()
	orders <- agent.Order{DrainInbound: true}
	<-begun
	orders <- agent.Order{Leave: true}
	select {
	case exit := <-left:
		if time.Since(asked) < adminTimeout {
			t.Fatalf("exit %+v before the drain is answered", exit)
		}
	case <-time.After(50 * time.Millisecond): // in which it could have left
		close(answer)
		if exit := <-left; !exit.Left {
			t.Errorf("exit %+v, want that it left", exit)
		}
	}
}
