package ads

import (
	"github.com/pilotlight/pilotlight/discovery/xds"
)

// maxUnused is how many snapshots without a stream are kept. They share nearly everything with those that have one.
const maxUnused = 256

// hasUnused reports whether g, or the kept part of the generation before, holds a view that no reader uses, or more
// than maxUnused snapshots that no reader uses.
func (vs *views) hasUnused(read map[reader]bool) bool {
	views, used := map[xds.Outbound]bool{}, map[xds.Outbound]bool{}
	for r := range read {
		if !views[r.Outbound] { // many readers share one, and to find the view of the mesh for it costs time
			views[r.Outbound], used[r.Outbound.In(vs.mesh)] = true, true
		}
	}
	for _, b := range []*built{vs.built, vs.last.Load()} {
		if b == nil {
			continue
		}
		for _, v := range b.outbound.keys() {
			if !used[v] {
				return true
			}
		}
		unused := 0
		for _, r := range b.snapshots.keys() {
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
