package model

import "slices"

// Judged is what is known of the objects of a mesh, so that the notes of a later mesh are made by what changed. It is immutable.
type Judged struct {
	mesh       *Mesh
	objects    []*opinion // of each object of the mesh; nil for one that is not used
	namespaces map[string]bool
	streams    []int64           // of the connected proxies
	told       map[*Service]bool // services with a note of their own
	clashes    []Note            // about VirtualServices, DestinationRules and ServiceEntries that take each other's place
	looked     int               // how many objects were examined

	examined int               // how many proxies were
	proxies  map[int64]verdict // of each connected proxy, by its stream
}

// opinion is the notes of one object, and what they depend on. It is immutable.
type opinion struct {
	object   *Object
	notes    []Note
	needed   []need
	fleeting bool   // they may depend on something else
	compared [2]int // how many hosts were compared with similar ones before the object, and for it
}

// verdicts returns what is known of proxies that were connected already, nil if the mesh was another.
func (j *Judged) verdicts(m *Mesh) map[int64]verdict {
	if j == nil || j.mesh != m {
		return nil
	}
	return j.proxies
}

// opinion returns what is known of an object, by its place in the mesh that is judged; nil if it must be examined.
func (j *judge) opinion(at int, o *Object) *opinion {
	known := j.since.known(at)
	switch {
	case known == nil || known.fleeting:
		return nil
	case known.object != o && len(known.notes) > 0: // the line in its notes may be another
		return nil
	case slices.ContainsFunc(known.needed, j.since.has):
		return nil
	case !j.similar.again(known.compared):
		return nil
	}
	return known
}

// opine returns the notes of an object, and what they depend on.
func (j *judge) opine(o *Object) *opinion {
	j.needed, j.fleeting = nil, false
	from, compared := len(j.notes), j.similar.asked
	j.warned(o)
	j.object(o)
	out := &opinion{o, slices.Clone(j.notes[from:]), slices.Clip(j.needed), j.fleeting, [2]int{compared, j.similar.asked - compared}}
	j.notes = j.notes[:from]
	for _, n := range out.notes {
		out.fleeting = out.fleeting || n.Meta.Key() != o.Key() || n.Other.Name != "" // another object may have moved to another line
	}
	return out
}
