package envoy

import "slices"

// shield keeps a parent at work when its newcomer gets a newcomer of its own. Envoy knows of two processes: as soon as the third starts, or
// the second ends, the second sends the first its message to terminate. The shield has the first one's socket: it answers what the second
// asks, and passes nothing on. The agent ends the first one when it is idle, or when its time is over.
//
//	parent ◀─ shield ◀── Terminate ── newcomer ◀── ShutdownAdmin ── newcomer's newcomer
type shield struct {
	parent, newcomer *process
	rescue           *Rescue
}

// shieldParent protects the parent of a process that is about to get a newcomer. The caller holds the lock.
func (p *Proxy) shieldParent(of *process) {
	if of == nil || !of.launch.Hot() {
		return
	}
	parent := p.processes[of.launch.Epoch-1]
	if parent == nil || parent.launch.Family != of.launch.Family ||
		p.shielded(parent.launch.Family, parent.launch.Restart) || p.stoodIn(parent.launch.Family, parent.launch.Restart) {
		return
	}
	rescue, err := bindOver(of.sockets, parent.launch.Restart)
	if err != nil {
		p.Log.Warn("requests of a replaced Envoy may be cut: its newcomer will end it", "epoch", parent.launch.Epoch, "err", err)
		return
	}
	rescue.connected = of.requester
	p.shields = append(p.shields, shield{parent, of, rescue})
	go rescue.stand()
}

// shielded reports whether the process of a restart epoch has a shield.
func (p *Proxy) shielded(family, restart int) bool {
	return slices.ContainsFunc(p.shields, func(s shield) bool {
		return s.parent.launch.Family == family && s.parent.launch.Restart == restart
	})
}

// unshield ends the shields that nobody needs any more. The caller holds the lock.
func (p *Proxy) unshield() {
	p.shields = slices.DeleteFunc(p.shields, func(s shield) bool {
		lives := p.processes[s.parent.launch.Epoch] == s.parent || p.processes[s.newcomer.launch.Epoch] == s.newcomer
		if !lives {
			_ = s.rescue.Close() // a socket that nobody sends to
		}
		return !lives
	})
}
