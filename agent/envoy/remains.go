package envoy

import "github.com/pilotlight/pilotlight/agent/flight"

// keep remembers the last process that ended; one is enough, since each is asked for when it ends.
func (p *Proxy) keep(c *process) {
	remains := flight.Remains{
		Process:   c.kernel,
		LastLines: c.output.lastLines(),
		Stats:     c.received.stats(),
		Bootstrap: []byte(c.launch.Config.Bootstrap),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remains, p.ended = remains, c.launch.Epoch
}

// Remains returns those of an epoch, nothing where another has ended since.
func (p *Proxy) Remains(epoch int) flight.Remains {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != epoch {
		return flight.Remains{}
	}
	return p.remains
}
