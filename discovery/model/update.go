package model

import (
	"slices"
	"time"
)

// Update is what a Source says: these groups are now thus. An update is taken whole, so objects that belong
// together change together.
type Update struct {
	Groups map[string]Group // by a key that is the source's own; an empty group deletes
	Synced bool             // the source has now told everything it knew when it started
}

// Group is the smallest unit that a source replaces: one configuration object, or one registered service.
type Group struct {
	Services []*Service
	Objects  []*Object
}

// Empty reports whether the group deletes its key.
func (g Group) Empty() bool { return len(g.Services) == 0 && len(g.Objects) == 0 }

// Covers reports whether the group has a service or an object in the place of each that another has.
func (g Group) Covers(other Group) bool {
	for _, s := range other.Services {
		if !slices.ContainsFunc(g.Services, func(o *Service) bool { return o.key() == s.key() }) {
			return false
		}
	}
	for _, o := range other.Objects {
		if !slices.ContainsFunc(g.Objects, func(p *Object) bool { return p.Key() == o.Key() }) {
			return false
		}
	}
	return true
}

// Change is why there is a new Mesh.
type Change struct {
	Since time.Time // when the first of it was told
	Keys  []string  // of the groups that changed, as source/key, sorted; the first few
	Count int       // of all of them
}
