package model

import "cmp"

// If several stores have an object with the same kind, namespace and name, only the first is used: the older, then that
// of the source whose name sorts first. The others have no effect on the mesh; each has a note that names the one in
// use.

// twin is an object that is not used, and the object that is used instead.
type twin struct{ object, used *Object }

// addObjects stores objects, which are sorted by age, and returns those that are used.
func (m *Mesh) addObjects(objects []*Object) []*Object {
	m.objects, m.twins = objects, map[string]bool{}
	used := make([]*Object, 0, len(objects))
	known := make(map[string]*Object, len(objects))
	for _, o := range objects {
		if first, ok := known[o.Key()]; ok {
			m.twins[o.Key()] = true
			m.unused = append(m.unused, twin{o, first})
			continue
		}
		known[o.Key()] = o
		used = append(used, o)
	}
	return used
}

// used returns the objects from which the mesh is made, oldest first.
func (m *Mesh) used() []*Object {
	if len(m.unused) == 0 {
		return m.objects
	}
	out, next := make([]*Object, 0, len(m.objects)), m.unused
	for _, o := range m.objects { // unused has the same order
		if len(next) > 0 && next[0].object == o {
			next = next[1:]
			continue
		}
		out = append(out, o)
	}
	return out
}

// objectsInTwoStores adds a note for each object that is not used because another store has it, too.
func (j *judge) objectsInTwoStores() {
	for _, t := range j.mesh.unused {
		j.conflict(t.object.Meta, t.used.Meta, "", "another source has this object too, at %s, which is older or comes first: this one is not used",
			cmp.Or(t.used.Origin.String(), "a place that is not known"))
	}
}
