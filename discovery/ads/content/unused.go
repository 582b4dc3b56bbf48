package content

import (
	"slices"

	"github.com/pilotlight/pilotlight/discovery/xds"
)

// maxUnused is how many snapshots without a stream are kept. They share nearly everything with those that have one.
const maxUnused = 256

// Held returns the outbound views that are kept, of these views and of those before.
func (vs *Views) Held() []xds.Outbound {
	list := vs.built.outbound.keys()
	if last := vs.last.Load(); last != nil {
		list = append(list, last.outbound.keys()...)
	}
	return list
}

// HasUnused reports whether views that are kept, also those before, have one that no reader uses, or more than maxUnused
// snapshots that no reader uses.
func (vs *Views) HasUnused(read map[Reader]bool) bool {
	views, used := map[xds.Outbound]bool{}, map[xds.Outbound]bool{}
	for r := range read {
		if !views[r.Outbound] { // many readers share one, and to find the view of the mesh for it costs time
			views[r.Outbound], used[r.Outbound.In(vs.Mesh)] = true, true
		}
	}
	if slices.ContainsFunc(vs.Held(), func(v xds.Outbound) bool { return !used[v] }) {
		return true
	}
	for _, b := range []*built{vs.built, vs.last.Load()} {
		if b == nil {
			continue
		}
		unused := 0
		for _, r := range b.Snapshots.keys() {
			if !read[r] {
				unused++
			}
		}
		if unused > maxUnused {
			return true
		}
	}
	return false
}
