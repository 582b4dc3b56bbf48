package envoy

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
)

// shield keeps a parent at work when its newcomer gets a newcomer of its own. Envoy knows of two processes: as soon as the third starts, or
// the second ends, the second sends the first its message to terminate. The shield has the first one's socket: it answers what the second
// asks, and passes nothing on. The agent ends the first one when it is idle, or when its time is over.
//
//	parent ◀─ shield ◀── Terminate ── newcomer ◀── ShutdownAdmin ── newcomer's newcomer
type shield struct {
	parent, newcomer *process
	rescue           *hotrestart.Rescue
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
	rescue, err := hotrestart.BindOver(of.sockets, parent.launch.Restart)
	if err != nil {
		p.Log.Warn("requests of a replaced Envoy may be cut: its newcomer will end it", "epoch", parent.launch.Epoch, "err", err)
		return
	}
	rescue.Connected = of.requester
	p.shields = append(p.shields, shield{parent, of, rescue})
	go rescue.Stand()
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

// standInInterval is how often the path from a newcomer to its parent is checked.
const standInInterval = 100 * time.Millisecond

// keepParent keeps a socket at the path of a newcomer's parent, until the parent's time is over or ctx ends: without one, as after a cleaner of
// /run, the newcomer aborts when it adds a listener (measured on 1.40). A socket that is gone cannot be opened again, so another one answers
// in its place. The parent then ends by the agent's signal.
func (c *process) keepParent(ctx context.Context, running *sync.WaitGroup) {
	if !c.launch.Hot() {
		return
	}
	requester, err := c.sockets.Dial("child", c.launch.Restart)
	if err != nil {
		c.Log.Warn("hot-restart socket cannot be made again if its file is removed", "epoch", c.launch.Epoch, "err", err)
		return
	}
	c.mu.Lock()
	c.requester = requester
	c.mu.Unlock()
	running.Go(func() {
		over := time.NewTimer(c.Options.ParentShutdown + 5*time.Second)
		defer over.Stop()
		ticker := time.NewTicker(standInInterval)
		defer ticker.Stop()
		var before *hotrestart.Rescue
		failed := false
		for path := c.sockets.Path("parent", c.launch.Restart-1); ; {
			select {
			case <-ctx.Done():
				return
			case <-over.C:
				return
			case <-ticker.C:
			}
			if present(path) {
				continue
			}
			switch rescue, err := c.standIn(); {
			case err == nil:
				if before != nil {
					c.stood(before)
					_ = before.Close() // a socket without a path
				}
				before, failed = rescue, false
			case !failed:
				failed = true
				c.Log.Error("hot-restart socket was removed, and could not be made again: Envoy aborts if it adds a listener", "epoch", c.launch.Epoch, "err", err)
			}
		}
	})
}

// standIn binds a socket at the path of the parent, which answers the newcomer until the family ends.
func (c *process) standIn() (*hotrestart.Rescue, error) {
	rescue, err := hotrestart.BindOver(c.sockets, c.launch.Restart-1)
	if errors.Is(err, fs.ErrNotExist) { // the directory is gone too
		if err = c.Slot.Restore(); err == nil {
			rescue, err = hotrestart.BindOver(c.sockets, c.launch.Restart-1)
		}
	}
	if err != nil {
		return nil, err
	}
	rescue.Connected = c.requester
	if !c.stands(rescue, c.launch.Family) {
		return nil, errors.Join(errors.New("the newcomer has ended meanwhile"), rescue.Close())
	}
	c.Log.Warn("hot-restart socket of a replaced Envoy made again: its file was removed", "epoch", c.launch.Epoch-1)
	go rescue.Stand()
	return rescue, nil
}

// requesterTo returns the connection to the newcomer of a parent by its restart epoch, nil for none. The caller holds the lock.
func (p *Proxy) requesterTo(family, restart int) *net.UnixConn {
	for _, c := range p.processes {
		if c.launch.Family == family && c.launch.Restart == restart+1 {
			return c.requester
		}
	}
	return nil
}

// present reports whether a path leads to something, as far as can be seen.
func present(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
