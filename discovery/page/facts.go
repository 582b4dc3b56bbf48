package page

import (
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/overview"
)

// Facts are what the page shows, of one moment.
type Facts struct {
	Now          time.Time
	Awaited      string      // what discovery waits for before it is ready; "" once it is
	Mesh         *model.Mesh // nil before the first
	Proxies      []overview.Proxy
	Callers      []model.Proxy
	Gone         []ads.Gone
	Notes        []model.Note
	Faults       []string // of sources and other parts: a line for each
	Pushes       []ads.Push
	Certificates []Certificate
}

// Certificate is one that discovery itself uses.
type Certificate struct {
	Name  string
	From  time.Time
	Until time.Time
	Fault string // why it cannot be read; "" if it can
}

// A certificate is soon to end within lateAfter, or in the last quarter of a life that is shorter: those of an authority live a day, and are renewed at half
// of it.
const (
	lateAfter = 7 * 24 * time.Hour
	lastPart  = 4
)

func (c Certificate) late(now time.Time) bool {
	return c.Until.Sub(now) < min(lateAfter, c.Until.Sub(c.From)/lastPart)
}
