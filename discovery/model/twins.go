package model

import "cmp"

// Of objects with one kind, namespace and name, which come from several stores, the first is used: the older, then that of the
// source whose name comes first. The others make nothing of the mesh; each has a note that names the one in use.

// twin is an object that is not used, and the one that is used in its place.
type twin struct{ object, used *Object }

// addObjects takes over objects, which are in the order of their age, and returns those that are used.
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

// used returns the objects that the mesh is made of, oldest first.
func (m *Mesh) used() []*Object {
	if len(m.unused) == 0 {
		return m.objects
	}
	out, next := make([]*Object, 0, len(m.objects)), m.unused
	for _, o := range m.objects { // unused has their order
		if len(next) > 0 && next[0].object == o {
			next = next[1:]
			continue
		}
		out = append(out, o)
	}
	return out
}

// objectsInTwoStores notes the objects that are not used since another store has them, too.
func (j *judge) objectsInTwoStores() {
	for _, t := range j.mesh.unused {
		j.conflict(t.object.Meta, t.used.Meta, "", "another source has this object too, at %s, which is older or comes first: this one is not used",
			cmp.Or(t.used.Origin.String(), "a place that is not known"))
	}
}
