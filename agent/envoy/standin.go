package envoy

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"time"
)

// standInInterval is how often a newcomer's way to its parent is looked after.
const standInInterval = 100 * time.Millisecond

// keepParent keeps a socket at the path of a newcomer's parent, until the parent's time is over or ctx ends: without one, as after a cleaner of
// /run, the newcomer aborts when it adds a listener (measured on 1.40). A socket that is gone cannot be opened again, so another one answers
// in its place. The parent then ends by the agent's signal. An upgrade of the agent waits until that time is over.
func (c *process) keepParent(ctx context.Context) {
	if !c.launch.Hot() {
		return
	}
	child, err := c.sockets.dial("child", c.launch.Restart) // reaches it without its path
	if err != nil {
		c.Log.Warn("hot-restart sockets are not looked after", "epoch", c.launch.Epoch, "err", err)
		return
	}
	go func() {
		defer child.Close()
		over := time.NewTimer(c.Options.ParentShutdown + 5*time.Second)
		defer over.Stop()
		ticker := time.NewTicker(standInInterval)
		defer ticker.Stop()
		said := ""
		for path := c.sockets.path("parent", c.launch.Restart-1); ; {
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
			if err := c.standIn(child); err != nil && err.Error() != said {
				said = err.Error()
				c.Log.Error("hot-restart socket was removed, and could not be made again: Envoy aborts if it adds a listener", "epoch", c.launch.Epoch, "err", err)
			}
		}
	}()
}

// standIn binds a socket at the path of the parent, which answers the newcomer until the family ends.
func (c *process) standIn(child *net.UnixConn) error {
	if err := c.Slot.Restore(); err != nil {
		return err
	}
	rescue, err := bindOver(c.sockets, c.launch.Restart-1)
	if err != nil {
		return err
	}
	rescue.connected = child
	if !c.stands(rescue, c.launch.Family) {
		return rescue.Close() // the newcomer has ended meanwhile
	}
	c.Log.Warn("hot-restart socket of a replaced Envoy made again: its file was removed", "epoch", c.launch.Epoch-1)
	go rescue.stand()
	return nil
}

// present reports whether a path leads to something, as far as can be seen.
func present(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
