//go:build kube

package kube

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// replica is one of those that want to lead, with a relay of its own to the API server.
type replica struct {
	*kube.Election
	relay *relay
	stop  context.CancelFunc
	done  chan struct{}
}

func startReplica(t *testing.T, c *cluster, name string, leaders *atomic.Int32) *replica {
	t.Helper()
	r := &replica{relay: startRelay(t, c.address), done: make(chan struct{})}
	config := c.config("discovery")
	config.Host = "https://" + r.relay.listener.Addr().String()
	r.Election = &kube.Election{
		Connect:   func() (*kube.Client, error) { return kube.New(config, "test") },
		Namespace: "default", Name: "discovery", Identity: name, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() {
		defer close(r.done)
		if err := r.Run(ctx, func(ctx context.Context, _ func() (*kube.Client, error)) error {
			if n := leaders.Add(1); n != 1 {
				t.Errorf("there are %d leaders at once", n)
			}
			<-ctx.Done()
			leaders.Add(-1)
			return nil
		}); err != nil {
			t.Errorf("%s ends with %v", name, err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-r.done
	})
	return r
}

// becomes waits until a replica leads or no longer does, and returns how long that took.
func (r *replica) becomes(t *testing.T, leader bool) time.Duration {
	t.Helper()
	began := time.Now()
	check(t, lab.Eventually(2*time.Minute, func() error {
		if r.Leading() != leader {
			return errors.New(r.Identity + " still waits")
		}
		return nil
	}))
	return time.Since(began).Round(100 * time.Millisecond)
}

// One of two replicas leads. One that is cut off ends before the other begins; one that stops hands over at once. An API server
// that is away takes the lead away, and gives it back.
func TestLeader(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	var leaders atomic.Int32
	a := startReplica(t, c, "a", &leaders)
	refused := time.Now() // it has no rights yet
	c.hand().apply(leases("default"))
	a.becomes(t, true)
	t.Logf("leading %s after the rights came", time.Since(refused).Round(100*time.Millisecond))
	b := startReplica(t, c, "b", &leaders)

	a.relay.set(true)
	t.Logf("cut off, a ended after %s, b began %s later", a.becomes(t, false), b.becomes(t, true))
	a.relay.set(false)

	b.stop()
	<-b.done
	t.Logf("b stopped, a began after %s", a.becomes(t, true))

	c.stop()
	t.Logf("the API server went, a ended after %s", a.becomes(t, false))
	c.start()
	t.Logf("it came back, a leads after %s", a.becomes(t, true))
}
