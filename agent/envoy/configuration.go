package envoy

import (
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/pilotlight/pilotlight/agent/flight"
	"github.com/pilotlight/pilotlight/agent/health"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

// deltaVariant is in a bootstrap that uses delta xDS instead of the state of the world.
const deltaVariant = "DELTA_GRPC"

// The types whose rejections are handled separately.
const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
)

// rejectedSince reports whether Envoy has logged a rejection after a time.
func (c *process) rejectedSince(at time.Time) bool {
	return c.output.rejectedSince(at)
}

// configuration queries which configuration Envoy has received, and keeps the kernel's facts for the flight record.
func (c *process) configuration(ctx context.Context) *health.Config {
	received, err := c.admin.Received(ctx)
	if err != nil {
		return nil
	}
	if c.gate != nil {
		received.Listeners = max(0, received.Listeners-1) // it counts the gate
	}
	lds := received.LDS != c.received.LDS || received.WorkersStarted && !c.received.WorkersStarted
	c.news = c.received != (Received{}) &&
		(lds || received.CDS != c.received.CDS || received.Discovery != c.received.Discovery)
	if lds || !c.looked {
		c.looked, c.looks = true, looksAtPorts
	}
	c.received = received
	c.kernel, _ = flight.ReadProcess(os.DirFS("/"), c.pid)
	config := &health.Config{
		CDS: c.updates(ctx, received.CDS, clusterType), LDS: c.updates(ctx, received.LDS, listenerType),
		Discovery:      received.Discovery,
		WorkersStarted: received.WorkersStarted, Listeners: received.Listeners, CreateFailures: received.CreateFailures,
	}
	if !c.drained.Load() {
		config.Stopped = received.Stopped
	}
	if (c.Redirected || received.LDS.Rejected > 0) && (lds || c.missing != "") {
		if name, err := c.admin.missing(ctx, c.Redirected); err == nil {
			c.missing = name
		}
	}
	config.Missing = c.missing
	c.lookAtPorts(received.WorkersStarted)
	if received.LDS.Rejected > 0 && (lds || c.lost != "") {
		if unbound, err := c.admin.unbound(ctx); err == nil {
			c.taken = unbound
		}
	}
	if received.WorkersStarted {
		c.lookForLost(lds, settled(config.LDS, asks(c.launch.Config, deltaVariant)))
		config.Lost = c.lost
	}
	config.Shared, config.Intercepted = c.shared, !c.Unintercepted
	config.Refused = c.refused(ctx)
	c.lookPast(ctx)
	if received.LDS.Success == 0 && received.LDS.Rejected > 0 {
		if n, err := c.admin.DynamicListeners(ctx); err == nil {
			config.Dynamic = &n
		}
	}
	return config
}

// settled reports whether nothing of the last updates is refused.
func settled(u health.Updates, delta bool) bool {
	return u.Rejected == 0 || u.Mended || !delta && u.Accepted.After(u.Rejection.At)
}

// looksAtPorts is how many times the listening sockets are compared after a change of the listeners: a program that starts at
// the same time may bind its own a moment later.
const looksAtPorts = 2

// lookAtPorts looks for another process that listens on Envoy's addresses: after a change, and until it has gone.
func (c *process) lookAtPorts(serves bool) {
	if !serves || c.looks == 0 && c.shared == "" {
		return
	}
	who, sure := c.sharedWith()
	if !sure {
		return
	}
	c.looks = max(0, c.looks-1)
	if who != "" && who != c.shared {
		c.Log.Warn("a port of Envoy is shared: give each proxy of a host its own", "epoch", c.launch.Epoch, "with", who)
	}
	c.shared = who
}

// sharedWith describes another process that listens on an address of the epoch; empty for none. Other epochs of this
// agent are none. sure is false while the epoch does not listen, or when the kernel does not answer.
func (c *process) sharedWith() (who string, sure bool) {
	all, err := procnet.Listeners()
	if err != nil {
		return "", false
	}
	own, err := procnet.SocketsOf(c.pid)
	if err != nil {
		return "", false
	}
	if _, listens := procnet.Shared(all, own); !listens {
		return "", false
	}
	for _, pid := range c.Pids() {
		if sockets, err := procnet.SocketsOf(pid); err == nil {
			maps.Copy(own, sockets)
		}
	}
	found, _ := procnet.Shared(all, own)
	if found.Inode == 0 {
		return "", true
	}
	holder := procnet.HolderOf(found.Inode)
	return fmt.Sprintf("%s also listens on %s, and gets some of the connections", holder, found.Address), true
}

// updates adds the last rejection in Envoy's log to the counts.
func (c *process) updates(ctx context.Context, u Updates, typeURL string) health.Updates {
	out := health.Updates{Success: u.Success, Rejected: u.Rejected, Accepted: u.Accepted}
	if u.Rejected == 0 {
		return out
	}
	last := c.output.lastRejection(typeURL)
	out.Rejection = last.Rejection
	if asks(c.launch.Config, deltaVariant) {
		out.Mended = c.mended(ctx, last, typeURL) && u.Accepted.After(last.At)
	}
	return out
}

// formers are the rejected resources of which Envoy had an earlier, accepted version at the first query after the
// rejection.
type formers struct {
	at    time.Time // of the rejection
	names map[string]bool
}

// mended reports whether each resource that a rejection named has since been accepted or withdrawn. A withdrawal is
// visible only if Envoy had an earlier version of the resource, and no longer has it: of other resources Envoy keeps no
// record.
func (c *process) mended(ctx context.Context, r rejection, typeURL string) bool {
	if c.formers == nil {
		c.formers = map[string]formers{}
	}
	former := c.formers[typeURL]
	first := !former.at.Equal(r.At)
	if first {
		former = formers{r.At, map[string]bool{}}
	}
	mended := len(r.names) > 0
	for _, name := range r.names {
		at, err := c.admin.updated(ctx, typeURL, name)
		if err != nil {
			return false
		}
		if first && !at.IsZero() {
			former.names[name] = true
		}
		withdrawn := at.IsZero() && former.names[name]
		mended = mended && (withdrawn || at.After(r.At))
	}
	c.formers[typeURL] = former
	return mended
}
