package envoy

import (
	"context"
	"os"
	"time"

	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/agent/health"
)

// The types whose rejections are told apart.
const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
)

// rejectedSince reports whether Envoy's log tells of a rejection after a time.
func (c *process) rejectedSince(at time.Time) bool {
	return c.output.lastRejection(clusterType).At.After(at) || c.output.lastRejection(listenerType).At.After(at)
}

// configuration asks Envoy what it has received, and notes what else may be needed when it has ended.
func (c *process) configuration(ctx context.Context) *health.Config {
	received, err := c.admin.Received(ctx)
	if err != nil {
		return nil
	}
	c.received = received
	c.kernel, _ = flight.ReadProcess(os.DirFS("/"), c.pid)
	c.listeners.Store(received.Listeners)
	updates := func(u Updates, typeURL string) health.Updates {
		return health.Updates{Success: u.Success, Rejected: u.Rejected, Accepted: u.Accepted, Rejection: c.output.lastRejection(typeURL)}
	}
	config := &health.Config{
		CDS: updates(received.CDS, clusterType), LDS: updates(received.LDS, listenerType),
		WorkersStarted: received.WorkersStarted, Listeners: received.Listeners, CreateFailures: received.CreateFailures,
	}
	if received.LDS.Success == 0 && received.LDS.Rejected > 0 {
		if n, err := c.admin.DynamicListeners(ctx); err == nil {
			config.Dynamic = &n
		}
	}
	return config
}
