package envoy

import "github.com/pilotlight/pilotlight/agent/flight"

// keep keeps the remains of the last process that ended. One is enough, since the caller reads them when a process
// ends.
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

// Remains returns the remains of an epoch; the zero value if another epoch has ended since.
func (p *Proxy) Remains(epoch int) flight.Remains {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended != epoch {
		return flight.Remains{}
	}
	return p.remains
}
