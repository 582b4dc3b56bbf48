package discovery

import (
	"log/slog"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// LastGood keeps the last good forms of records that are broken now, for other replicas and later runs. Its methods return at once.
type LastGood interface {
	// Form returns the last good form of a record of a source; false if none is kept.
	Form(source, key string) (model.Group, bool)
	// Keep replaces what is kept of a source by the forms of all its broken records. They do not change.
	Keep(source string, forms map[string]model.Group)
}

// broken are the records of a source that are broken, and served in their last good form.
type broken struct {
	keys    map[string]bool
	changed bool // since they were handed over
	known   bool // all that the source had at the start has come: what is kept is of no record that breaks later
}

// restore takes the last good form of a broken record of which this run has none.
func (s *state) restore(c *cache, key string, group model.Group, now time.Time) {
	if s.lastGood == nil || c.broken.known || group.Unread || c.good(key) || !group.Malformed() && !group.Closed() {
		return
	}
	if form, kept := s.lastGood.Form(c.feed.name, key); kept {
		s.replace(c, c.feed.name, key, form, now)
		s.log(slog.LevelInfo, "a broken record is served in its last good form, which was kept before this start", "source", c.feed.name, "record", key)
	}
}

// breaks records whether a record that was sent is broken, and served in its last good form.
func (c *cache) breaks(key string, group model.Group) {
	is := group.Malformed() && !group.Unread && c.good(key)
	if c.broken.keys[key] == is {
		return
	}
	if c.broken.changed = true; is {
		c.broken.keys[key] = true
	} else {
		delete(c.broken.keys, key)
	}
}

// forms returns, by source, the last good forms of broken records where these have changed since the last call, of sources that are whole:
// others may have records that nobody has seen yet.
func (s *state) forms() map[string]map[string]model.Group {
	out := map[string]map[string]model.Group{}
	for name, c := range s.sources {
		if !c.broken.changed || c.status.State != SourceSynced || !c.whole() {
			continue
		}
		c.broken.changed = false
		out[name] = map[string]model.Group{}
		for key := range c.broken.keys {
			if c.good(key) && len(c.faults[key]) > 0 { // it is not gone
				out[name][key] = c.groups[key]
			}
		}
	}
	return out
}
