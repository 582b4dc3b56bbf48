package envoy

import "github.com/pilotlight/pilotlight/agent/flight"

// Remains are what is known of a process that has ended, for its flight record.
type Remains struct {
	Epoch     int
	Process   flight.Process // last seen
	LastLines []string
	Stats     map[string]int64 // last asked
	Bootstrap []byte           // with its secrets
}

// keep remembers the last process that ended; one is enough, since each is asked for when it ends.
func (p *Proxy) keep(c *process) {
	remains := Remains{
		Epoch:     c.launch.Epoch,
		Process:   c.kernel,
		LastLines: c.output.lastLines(),
		Stats:     c.received.stats(),
		Bootstrap: []byte(c.launch.Config.Bootstrap),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remains = remains
}

// Remains returns those of an epoch, nothing where another has ended since.
func (p *Proxy) Remains(epoch int) Remains {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.remains.Epoch != epoch {
		return Remains{Epoch: epoch}
	}
	return p.remains
}
