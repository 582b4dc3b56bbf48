package page

import (
	"fmt"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
)

// Facts are what the page shows, of one moment.
type Facts struct {
	Now          time.Time
	Awaited      string      // what discovery waits for before it is ready; "" once it is
	Mesh         *model.Mesh // nil before the first
	Proxies      []proxystatus.Proxy
	Callers      []model.Proxy
	Gone         []ads.Gone
	Notes        []model.Note
	Faults       []string // of sources and other parts: a line for each
	Pushes       []ads.Push
	Certificates []Certificate
	InUse        []ads.InUse // certificates of secrets
}

// Certificate is one that discovery itself uses.
type Certificate struct {
	Name  string
	From  time.Time
	Until time.Time
	Fault string // why it cannot be read; "" if it can
}

// A certificate is soon to end within lateAfter, or in the last quarter of a life that is shorter: those of an authority live a day, and are renewed at half
// of it, and those of an issuer by ACME when a third of it is left. So one that renews itself is named when that is late.
const (
	day       = 24 * time.Hour
	lateAfter = 7 * day
	lastPart  = 4
)

func (c Certificate) late(now time.Time) bool {
	return c.Until.Sub(now) < min(lateAfter, c.Until.Sub(c.From)/lastPart)
}

// end says when a certificate ends, as of now.
func (c Certificate) end(now time.Time) string {
	at, left := c.Until.UTC().Format(time.RFC3339), c.Until.Sub(now)
	switch {
	case left <= 0:
		return fmt.Sprintf("has ended at %s: its peers refuse it", at)
	case left < 2*day:
		return fmt.Sprintf("ends at %s, in %s", at, left.Round(time.Minute))
	}
	return fmt.Sprintf("ends at %s, in %d days", at, left/day)
}
