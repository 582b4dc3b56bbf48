package envoy

import "github.com/pilotlight/pilotlight/agent/flight"

// remains are those of an epoch's process.
type remains struct {
	epoch int
	flight.Remains
}

// keptRemains is the number of epochs whose remains are kept. The caller reads them when it learns of the end of a process, and others
// may have ended by then: a parent, its child and the newcomer live at once.
const keptRemains = 3

// keep keeps the remains of a process that has ended, instead of those of an earlier one with its number.
func (p *Proxy) keep(c *process) {
	kept := []remains{{c.launch.Epoch, flight.Remains{
		Process:   c.kernel,
		LastLines: c.output.lastLines(),
		Stats:     c.received.stats(),
		Bootstrap: []byte(c.launch.Config.Bootstrap),
	}}}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.remains {
		if r.epoch != c.launch.Epoch && len(kept) < keptRemains {
			kept = append(kept, r)
		}
	}
	p.remains = kept
}

// Remains returns the remains of an epoch; the zero value if too many others have ended since.
func (p *Proxy) Remains(epoch int) flight.Remains {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.remains {
		if r.epoch == epoch {
			return r.Remains
		}
	}
	return flight.Remains{}
}
