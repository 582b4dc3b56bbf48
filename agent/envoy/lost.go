package envoy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/pilotlight/pilotlight/agent/procnet"
)

// lookForLost looks for an address at which an Envoy of this proxy has listened and this one does not, though LDS has not taken it away:
// another process has taken the port while Envoy restarted, or the newest version of the listener is refused. Where Envoy has no inbound
// listener, those addresses count too that it could not bind at its first start. settled means that nothing of the last LDS is refused.
func (c *process) lookForLost(changed, settled bool) {
	if changed {
		c.lossLooks = looksAtPorts
	}
	if c.lossLooks == 0 && c.lost == "" {
		return
	}
	now, err := procnet.AddressesOf(c.pid)
	if err != nil {
		return // the last answer stays
	}
	c.lossLooks = max(0, c.lossLooks-1)
	before := c.lost
	c.lost, c.free = "", false
	if settled {
		c.nowServed(now)
		return
	}
	served := c.lastAddresses()
	for _, a := range slices.Concat(served, c.taken) {
		if slices.Contains(now, a) {
			continue
		}
		stolen := c.output.lastRejected(listenerType, bindFailure(a))
		c.free = stolen && canListen(a)
		c.lost = fmt.Sprintf("nothing listens at %s, where Envoy served before: its listener is refused", a)
		if stolen {
			where := a.String()
			if slices.Contains(served, a) {
				where += ", where it served before"
			}
			c.lost = fmt.Sprintf("Envoy cannot listen at %s: %s", where, procnet.TakerOf(a))
		}
		if before == "" {
			c.Log.Warn("an address is lost", "epoch", c.launch.Epoch, "why", c.lost)
		}
		if c.free {
			c.Log.Info("an address that was lost is free: a new Envoy will listen there", "epoch", c.launch.Epoch, "address", a.String())
		}
		return
	}
}

// nowServed keeps the addresses at which Envoy listens, for the next one.
func (p *Proxy) nowServed(addresses []netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addresses = addresses
}

func (p *Proxy) lastAddresses() []netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addresses
}

// canListen reports whether a process could listen at an address now, without sharing it.
func canListen(a netip.AddrPort) bool {
	l, err := net.Listen("tcp", a.String())
	if err != nil {
		return false
	}
	l.Close()
	return true
}
