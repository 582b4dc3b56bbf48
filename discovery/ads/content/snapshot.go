package content

import (
	"slices"
)

// Snapshot returns what a reader gets. The first call for a view makes it, which may take seconds; others wait for that.
func (vs *Views) Snapshot(r Reader) *Snapshot {
	return vs.built.Snapshots.Get(r, func() *Snapshot {
		out, in := vs.outbound(r.Outbound), vs.inbound(r.Inbound)
		both := &Snapshot{}
		for k := range Kinds {
			if !k.Asked() {
				both[k] = vs.set(out.layers[k], in.layers[k])
			}
		}
		both[SDS] = vs.secrets(r, out.resources)
		both[NDS] = vs.table(r, out.resources)
		if last := vs.last.Load(); last != nil {
			if old := last.Snapshots.peek(r); old != nil {
				if old[SDS].Version == both[SDS].Version {
					both[SDS] = old[SDS]
				}
				if *old == *both {
					return old // a stream compares one pointer to see that nothing changed
				}
			}
		}
		return both
	})
}

// set stacks two layers. An empty inner layer does not make a separate set.
func (vs *Views) set(out, in *layer) *Set {
	key := pair[*layer]{out, in}
	if len(in.Resources) == 0 {
		key.to = nil
	}
	return vs.built.sets.Get(key, func() *Set {
		if last := vs.last.Load(); last != nil {
			if old := last.sets.peek(key); old != nil {
				return old
			}
		}
		return stack(out.kind, out).with(stack(in.kind, in), (*layer).minus)
	})
}

// Resources counts the resources that were made from the mesh. Resources that several views share count once.
func (vs *Views) Resources() (count [Kinds]int) {
	seen := map[*Resource]bool{}
	add := func(k Kind, list []*Resource) {
		for _, r := range list {
			if !seen[r] {
				seen[r] = true
				count[k]++
			}
		}
	}
	for _, h := range slices.Concat(vs.built.outbound.all(), vs.built.inbound.all()) {
		for k, l := range h.layers {
			if l != nil {
				add(Kind(k), l.Resources)
			}
		}
	}
	for _, s := range vs.Vault.shelves {
		add(SDS, s.set.All())
	}
	for _, s := range vs.built.tables.all() {
		add(NDS, s.All())
	}
	return count
}
