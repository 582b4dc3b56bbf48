package ads

import (
	"maps"
	"net"
	"slices"
	"sync"

	"github.com/pilotlight/pilotlight/discovery/ads/content"
)

// crowd is the streams that are open.
type crowd struct {
	mu      sync.Mutex
	streams map[*stream]bool
	apart   map[*stream]bool // streams that request objects
}

// refused counts the resources that proxies refuse while they have the others. A resource that several proxies refuse
// counts once.
func (c *crowd) refused() (count [content.Kinds]int) {
	seen := map[content.Unit]bool{}
	for _, st := range c.all() {
		st.mu.Lock()
		for k := range content.Kinds {
			if st.session == nil {
				continue
			}
			for u := range st.session.Units(k) {
				if !seen[u] {
					seen[u] = true
					count[k]++
				}
			}
		}
		st.mu.Unlock()
	}
	return count
}

func (c *crowd) all() []*stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	streams := make([]*stream, 0, len(c.streams))
	for st := range c.streams {
		streams = append(streams, st)
	}
	return streams
}

// everyone returns the streams of proxies and of control planes.
func (c *crowd) everyone() []*stream {
	all := c.all()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.AppendSeq(all, maps.Keys(c.apart))
}

// setApart adds a stream to those that request objects, or removes it. It returns the newest generation, which is not one of those that come later.
func (c *crowd) setApart(st *stream, apart bool) (newest int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, st)
	if delete(c.apart, st); apart {
		c.apart[st] = true
	}
	return st.hub.current.Load().number
}

func connectionsOf(streams []*stream) map[net.Conn]bool {
	used := make(map[net.Conn]bool, len(streams))
	for _, st := range streams {
		used[linkOf(st.wire.Context()).conn] = true
	}
	return used
}
