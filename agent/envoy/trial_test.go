package envoy

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/agent"
)

// A trial that is cancelled ends in its own time, while the next one has been asked for: it removes nothing of that one.
func TestATrialEndsBeforeTheNextBegins(t *testing.T) {
	p := newProxy(t, "exec sleep 600")
	p.Gates.Open, p.Patience = func(string) error { return nil }, patient
	p.processes = map[int]*process{0: {Proxy: p, pid: os.Getpid(), admin: fakeAdmin(t, func(http.ResponseWriter, *http.Request) {})}}
	config := agent.Config{Bootstrap: `{"cds_config": {}}`, Format: "json"}
	var forks atomic.Int32
	forked := []chan struct{}{make(chan struct{}), make(chan struct{})}
	ended := []chan struct{}{make(chan struct{}), make(chan struct{})}
	fork := p.Fork
	p.Fork = func(f func()) {
		n := forks.Add(1) - 1
		if n == 1 {
			close(forked[1])
			<-ended[0]
			if _, err := os.Stat(filepath.Join(p.Slot.Dir(), "envoy-trial.json")); err != nil {
				t.Errorf("the bootstrap of the second trial: %v", err)
			}
			fork(f)
			return
		}
		fork(f)
		close(forked[n])
	}
	try := func(n int) (cancel func()) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(ended[n])
			if tried, err := p.try(ctx, config); !tried || err == nil {
				t.Errorf("trial %d: tried %t, %v; want it cancelled", n, tried, err)
			}
		}()
		return cancel
	}
	cancelFirst := try(0)
	<-forked[0]
	cancelSecond := try(1)
	select {
	case <-forked[1]:
	case <-time.After(200 * time.Millisecond): // it waits for the first
	}
	cancelFirst()
	<-ended[0]
	<-forked[1]
	cancelSecond()
	<-ended[1]
	leavesNothing(t, p)
}
