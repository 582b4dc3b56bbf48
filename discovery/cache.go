package discovery

import (
	"maps"
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// group is a model.Group or a secret.Group.
type group[G any] interface {
	Len() int        // the number of things in it; 0 for a record that is gone, or malformed
	Malformed() bool // no part of the record could be read
	Same(G) bool
}

// cacheOf holds the last groups of one source, and the state of the source itself.
type cacheOf[U any, G group[G]] struct {
	life[U]
	groups map[string]G
	count  func(G, int) // of a group that comes, 1, or goes, -1; nil for no count
	keys   []string     // sorted: those of groups when ordered was called last
	added  []string     // to groups since then
}

// ordered returns the keys of the groups in their order. Only those that were added since the last call are sorted.
func (c *cacheOf[U, G]) ordered() []string {
	if len(c.added) == 0 && len(c.keys) == len(c.groups) {
		return c.keys
	}
	slices.Sort(c.added)
	out, old := make([]string, 0, len(c.groups)), c.keys
	add := func(key string) {
		if _, still := c.groups[key]; still && (len(out) == 0 || out[len(out)-1] != key) {
			out = append(out, key)
		}
	}
	for _, key := range c.added {
		for ; len(old) > 0 && old[0] <= key; old = old[1:] {
			add(old[0])
		}
		add(key)
	}
	for _, key := range old {
		add(key)
	}
	c.keys, c.added = out, nil
	return out
}

// take applies a record that the source has sent, and returns the group before it. changed is false if the record is
// the same, or malformed: then the last good one stays.
func (c *cacheOf[U, G]) take(key string, now G) (before G, changed bool) {
	before, had := c.groups[key]
	switch {
	case now.Malformed(), had && now.Len() > 0 && now.Same(before):
		return before, false
	case now.Len() > 0:
		c.status.Objects += now.Len() - before.Len()
		c.counted(before, now)
		if c.groups[key] = now; !had {
			c.added = append(c.added, key)
			if len(c.added) > len(c.groups)+64 { // keys that are gone again
				c.ordered()
			}
		}
		return before, true
	default:
		c.drop(key)
		return before, had
	}
}

func (c *cacheOf[U, G]) drop(key string) {
	before := c.groups[key]
	c.status.Objects -= before.Len()
	delete(c.groups, key)
	var nothing G
	c.counted(before, nothing)
}

// counted counts a group that another one replaces.
func (c *cacheOf[U, G]) counted(before, now G) {
	if c.count != nil {
		c.count(before, -1)
		c.count(now, 1)
	}
}

// deleted returns the keys of groups that the source had in an earlier run and has not sent again, now that it has
// synced. It forgets the faults of such records.
func (c *cacheOf[U, G]) deleted() []string {
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
			c.read(key, nil)
		}
	}
	c.resent = nil
	slices.Sort(out)
	return out
}

// cache is the cache of a source of the mesh.
type cache struct {
	cacheOf[model.Update, model.Group]
	census *model.Census // of its groups

	// held are groups that the source no longer has, or has less of, each with what it has of it. They are served until a
	// deadline: so many were removed at once that it may be an accident.
	held                 map[string]model.Group
	heldSince, heldUntil time.Time // zero for no hold
	lost                 string    // what they are, such as "9 of 10 hosts"

	stranded map[string]bool // policies that the source no longer has, since it is left without any object: see Update.Emptied

	leaving map[string]time.Time // groups that the source no longer has, until when they are served: see linger

	memory
	kept

	broken broken
}

func newCache() *cache {
	census := model.NewCensus()
	return &cache{
		cacheOf: cacheOf[model.Update, model.Group]{groups: map[string]model.Group{}, count: census.Count}, census: census,
		held: map[string]model.Group{}, stranded: map[string]bool{}, leaving: map[string]time.Time{},
		broken: broken{keys: map[string]bool{}, changed: true},
	}
}

// good reports whether a record has a form without faults.
func (c *cache) good(key string) bool {
	g, had := c.groups[key]
	return had && !g.Closed()
}

// remove removes the source. Its groups stay.
func (c *cache) remove(name string) {
	c.feed, c.faults, c.unread = nil, map[string][]string{}, map[string]bool{}
	clear(c.leaving)
	clear(c.stranded)
	c.memory = memory{}
	c.status = SourceStatus{Name: name, State: SourceRemoved, Objects: c.status.Objects, Changed: c.status.Changed}
}

// report returns the source's status.
func (c *cache) report() SourceStatus {
	out := c.cacheOf.report()
	if out.Held = len(c.held); out.Held > 0 {
		out.Lost, out.Since, out.Until = c.lost, c.heldSince, c.heldUntil
	}
	out.Stranded = len(c.stranded)
	if c.remembered() {
		out.Remembered, out.RememberedAt, out.Age = len(c.old), c.at, c.age.Round(time.Second).String()
	}
	return out
}

// forget forgets which groups are held. They are served until something else removes them.
func (c *cache) forget() {
	c.held, c.heldSince, c.heldUntil, c.lost = map[string]model.Group{}, time.Time{}, time.Time{}, ""
}

// toKeep returns what is kept of the source for the next start.
func (c *cache) toKeep() map[string]model.Group {
	out := maps.Clone(c.groups)
	for key := range c.stranded {
		group := out[key]
		group.Stranded = true
		out[key] = group
	}
	return out
}

// nothingOf returns empty groups: what a source has of records that are gone.
func nothingOf(keys []string) map[string]model.Group {
	out := make(map[string]model.Group, len(keys))
	for _, key := range keys {
		out[key] = model.Group{}
	}
	return out
}
