package ads

import (
	"slices"
)

func (vs *views) snapshot(r reader) *snapshot {
	return vs.built.snapshots.get(r, func() *snapshot {
		out, in := vs.outbound(r.Outbound), vs.inbound(r.Inbound)
		both := &snapshot{}
		for k := range kinds {
			if !k.asked() {
				both[k] = vs.set(out.layers[k], in.layers[k])
			}
		}
		both[sds] = vs.secrets(r, out.resources)
		both[nds] = vs.table(r, out.resources)
		if last := vs.last.Load(); last != nil {
			if old := last.snapshots.peek(r); old != nil {
				if old[sds].version == both[sds].version {
					both[sds] = old[sds]
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
func (vs *views) set(out, in *layer) *set {
	key := pair[*layer]{out, in}
	if len(in.resources) == 0 {
		key.to = nil
	}
	return vs.built.sets.get(key, func() *set {
		if last := vs.last.Load(); last != nil {
			if old := last.sets.peek(key); old != nil {
				return old
			}
		}
		return stack(out.kind, out).with(stack(in.kind, in), (*layer).minus)
	})
}

// resources counts the resources that were made from the mesh. Resources that several views share count once.
func (vs *views) resources() (count [kinds]int) {
	seen := map[*resource]bool{}
	add := func(k kind, list []*resource) {
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
				add(kind(k), l.resources)
			}
		}
	}
	for _, s := range vs.vault.shelves {
		add(sds, s.set.all())
	}
	for _, s := range vs.built.tables.all() {
		add(nds, s.all())
	}
	return count
}
