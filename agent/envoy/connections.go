package envoy

import (
	"context"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

// If a newcomer has closed an epoch's admin, the agent cannot query the epoch's work, so it reads the epoch's sockets. The
// epoch is idle when it listens nowhere and has no accepted connection. Connections that it has opened itself, to
// upstreams, discovery and collectors, stay open until its exit.

// awaitNoConnection reports Idle once the process neither listens nor has an accepted connection. With TPROXY,
// connections keep the original destination address, and accepted ones cannot be distinguished from others: then it
// reports nothing, and the process uses its full drain time.
//
// A look reads descriptors, then tables. A connection that was accepted between the two is not among the descriptors, and its listener may
// have been closed before the tables were read: so two looks in a row must show nothing.
func (c *process) awaitNoConnection(ctx context.Context, report func(agent.Report)) {
	if asks(c.launch.Config, "TPROXY") || asks(c.launch.Config, "transparent") {
		return
	}
	quiet := false
	for began := time.Now(); ctx.Err() == nil; {
		busy, err := c.accepted()
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("connections of a draining Envoy not read: it keeps its full time to drain", "epoch", c.launch.Epoch, "err", err)
			return
		}
		if !busy && quiet && ctx.Err() == nil {
			report(agent.Idle)
			return
		}
		quiet = !busy
		select {
		case <-ctx.Done():
		case <-time.After(min(max(time.Since(began)/10, calm), time.Second)):
		}
	}
}

// accepted reports whether the process listens, or has a connection that it has accepted.
func (c *process) accepted() (bool, error) {
	sockets, err := procnet.SocketsOf(c.pid)
	if err != nil {
		return false, err
	}
	tables, err := procnet.ReadTables(c.pid)
	if err != nil {
		return false, err
	}
	var listened procnet.Ports
	if known := c.listened.Load(); known != nil {
		listened = *known
	}
	return tables.Accepted(sockets, listened), nil
}

// rememberPorts stores the ports on which the process listens, before a newcomer takes over all or some of them.
func (c *process) rememberPorts() {
	sockets, err := procnet.SocketsOf(c.pid)
	if err != nil {
		return // it has ended
	}
	if tables, err := procnet.ReadTables(c.pid); err == nil {
		listened := tables.Listened(sockets)
		c.listened.Store(&listened)
	}
}
