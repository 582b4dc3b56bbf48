package discovery

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// cache holds the last groups of one source, and the state of the source itself.
type cache struct {
	feed   *feed // nil when the source was removed, and its groups are held
	groups map[string]model.Group
	faults map[string][]string // of records that are malformed, by key

	// resent holds the keys that the source has sent since it was started, until it has synced: a group that it does
	// not send again was deleted while the source was not running. Nil after that.
	resent map[string]bool

	// held are groups that the source no longer has. They are served until a deadline: so many were removed at once
	// that it may be an accident.
	held      map[string]bool
	heldUntil time.Time

	deadline time.Time // the first mesh waits for the source until then
	settled  bool      // it has synced, or ended, at least once
	status   SourceStatus
}

func newCache() *cache {
	return &cache{groups: map[string]model.Group{}, faults: map[string][]string{}, held: map[string]bool{}}
}

// pending reports whether the source has neither synced nor passed its deadline.
func (c *cache) pending() bool { return c.feed != nil && !c.settled && !c.status.Late }

// update applies an update, and calls changed with each group that it changes, as the group was before.
func (c *cache) update(u model.Update, changed func(key string, before model.Group)) {
	for key, group := range u.Groups {
		if c.resent != nil {
			c.resent[key] = true
		}
		delete(c.held, key)
		c.setFaults(key, group.Faults)
		before, had := c.groups[key]
		switch {
		case group.Malformed(), had && !group.Empty() && group.Same(before):
		case !group.Empty():
			c.put(key, group)
			changed(key, before)
		case had:
			c.drop(key)
			changed(key, before)
		}
	}
}

// deleted returns the keys of groups that the source had in an earlier run and has not sent again, now that it has synced.
func (c *cache) deleted() []string {
	if c.resent == nil {
		return nil
	}
	var out []string
	for key := range c.groups {
		if !c.resent[key] {
			out = append(out, key)
		}
	}
	for key := range c.faults {
		if !c.resent[key] {
			c.setFaults(key, nil)
		}
	}
	c.resent = nil
	slices.Sort(out)
	return out
}

func (c *cache) put(key string, group model.Group) {
	c.status.Objects += group.Len() - c.groups[key].Len()
	c.groups[key] = group
}

func (c *cache) drop(key string) {
	c.status.Objects -= c.groups[key].Len()
	delete(c.groups, key)
	delete(c.held, key)
}

// setFaults replaces the faults of a record.
func (c *cache) setFaults(key string, faults []string) {
	if slices.Equal(c.faults[key], faults) {
		return
	}
	if c.faults[key] = faults; len(faults) == 0 {
		delete(c.faults, key)
	}
	c.status.Malformed = nil // report makes it again
}

// report returns the source's status.
func (c *cache) report() SourceStatus {
	if c.status.Malformed == nil && len(c.faults) > 0 {
		for _, key := range slices.Sorted(maps.Keys(c.faults)) {
			for _, fault := range c.faults[key] {
				c.status.Malformed = append(c.status.Malformed, fmt.Sprintf("%s: %s", key, fault))
			}
		}
	}
	out := c.status
	out.Held, out.Until = len(c.held), c.heldUntil
	return out
}
