package envoy

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/procnet"
)

// try starts an Envoy with a configuration behind a gate that never opens, without hot restart, and ends it when it is fit to take
// over from the running one: a hot newcomer would close the admin of its parent before that is known. An error is why it
// may not take over. tried is false if a trial says nothing, or harms: then neither the configuration nor a fault of it is known.
//
// A trial waits for the end of the one before, which ends soon once it has been cancelled.
func (p *Proxy) try(ctx context.Context, config agent.Config) (tried bool, err error) {
	p.trying.Lock()
	defer p.trying.Unlock()
	running := p.serving()
	if running == nil || !p.gated(config) || !running.sparesSockets(ctx) {
		return false, nil
	}
	addresses, err := procnet.AddressesOf(running.pid)
	if err != nil {
		return false, nil
	}
	c, err := p.beginTrial(config, addresses)
	if err != nil {
		return false, fmt.Errorf("try the configuration: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		c.reap()
	}()
	defer func() {
		c.child.Signal(syscall.SIGKILL) // it has accepted no connection
		<-exited
		p.tries(c, false)
		if err := errors.Join(c.files.remove(), p.Slot.Ended(c.pid)); err != nil {
			p.Log.Warn("remains of a trial not removed", "err", err)
		}
	}()
	return c.tryOut(ctx, exited)
}

// tryOut waits until the process is fit, has ended, or Patience is over.
func (c *process) tryOut(ctx context.Context, exited <-chan struct{}) (tried bool, err error) {
	why := "its admin has not answered"
	for began := time.Now(); ; {
		if prospect, err := c.prospect(ctx); err == nil {
			prospect.taken = c.unbound()
			if why = prospect.unfit(c.gate.addresses); why == "" {
				return true, nil
			}
		}
		select {
		case <-ctx.Done():
			return true, fmt.Errorf("try the configuration: %w", context.Cause(ctx))
		case <-exited:
			return c.tryEnded()
		case <-time.After(pollInterval(time.Since(began))):
		}
		if time.Since(began) >= c.Patience {
			return true, fmt.Errorf("an Envoy with this configuration could not take over: %s", why)
		}
	}
}

// tryEnded judges the exit of the trial. A static listener that cannot share its port says nothing: a hot newcomer inherits the socket.
func (c *process) tryEnded() (tried bool, err error) {
	exit := c.exit()
	if strings.Contains(exit.Reason, "Address already in use") {
		return false, nil
	}
	return true, fmt.Errorf("an Envoy with this configuration ended: %s", exit)
}

// unbound returns the addresses of the running Envoy that this one could not bind.
func (c *process) unbound() []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range c.gate.addresses {
		if c.output.said(bindFailure(a)) {
			out = append(out, a)
		}
	}
	return out
}

// sparesSockets reports whether another Envoy with the same listeners leaves those of this one alone. One of UDP gets datagrams as soon as
// it is bound, and one of a pipe replaces the file.
func (c *process) sparesSockets(ctx context.Context) bool {
	addresses, pipe, err := c.admin.Listeners(ctx)
	if err != nil || pipe {
		return false
	}
	sockets, err := procnet.SocketsOf(c.pid)
	if err != nil {
		return false
	}
	tables, err := procnet.ReadTables(c.pid)
	if err != nil {
		return false
	}
	datagrams := tables.Datagrams(sockets)
	return !slices.ContainsFunc(addresses, func(a netip.AddrPort) bool { return datagrams[a.Port()] })
}

// beginTrial forks the Envoy of a trial.
func (p *Proxy) beginTrial(config agent.Config, addresses []netip.AddrPort) (*process, error) {
	in, err := p.Slot.Room()
	if err != nil {
		return nil, err
	}
	c := &process{
		Proxy: p, launch: agent.Launch{Config: config}, files: filesOf(in, trialName, config.Format),
		output: &output{log: p.Output.With("trial", true).Handler()}, started: time.Now(), gate: newGate(addresses),
	}
	c.files.gate, c.files.records = c.gate.static(p.Gates.Socket), recordsFor(p.Records, config.Bootstrap, p.Options)
	c.admin = NewAdmin(c.files.admin)
	c.admin.Spare = p.Spare
	_ = os.Remove(c.files.admin) // of an earlier trial
	if err := writeFile(c.files.bootstrap, c.files.withAdmin(config.Bootstrap)); err != nil {
		return nil, err
	}
	p.tries(c, true)
	if err := p.Slot.Starting(0); err != nil {
		p.Log.Warn("Envoy not recorded for a next agent", "err", err)
	}
	if err := c.fork(); err != nil {
		p.tries(c, false)
		return nil, errors.Join(err, c.files.remove())
	}
	return c, nil
}

// tries notes that a trial begins or has ended, for Launched.
func (p *Proxy) tries(c *process, begins bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if begins {
		p.trials = append(p.trials, c)
		return
	}
	p.trials = slices.DeleteFunc(p.trials, func(other *process) bool { return other == c })
}
