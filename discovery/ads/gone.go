package ads

import (
	"slices"
	"sync"
	"time"

	"github.com/pilotlight/pilotlight/node"
)

// Of proxies that are gone, the last maxGone are remembered, and told for goneFor.
const (
	maxGone = 64
	goneFor = 15 * time.Minute
)

// Gone is a proxy that has left and not come back.
type Gone struct {
	Node  string    `json:"node"`
	Name  string    `json:"name"`    // the one in its ID, NAME.NAMESPACE
	IP    string    `json:"address"` // the one in its ID
	At    time.Time `json:"at"`
	Cause string    `json:"cause"` // as in pilotlight's metric of resets: client, slow, refused, error
}

// departed are the proxies that have left last, the oldest first.
type departed struct {
	mu  sync.Mutex
	all []Gone
}

func (d *departed) add(g Gone) {
	if g.Node == "" {
		return // it never said who it is
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = slices.DeleteFunc(d.all, func(o Gone) bool { return o.Node == g.Node })
	if len(d.all) == maxGone {
		d.all = slices.Delete(d.all, 0, 1)
	}
	d.all = append(d.all, g)
}

// since returns those that left after a time and are not among connected, by node, the newest first.
func (d *departed) since(from time.Time, connected map[string]bool) []Gone {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []Gone{}
	for _, g := range slices.Backward(d.all) {
		if g.At.After(from) && !connected[g.Node] {
			if id, err := node.ParseID(g.Node); err == nil {
				g.Name, g.IP = id.Name, id.IP
			}
			out = append(out, g)
		}
	}
	return out
}
