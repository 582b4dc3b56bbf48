package notes

import "github.com/pilotlight/pilotlight/discovery/model"

// identity holds the fields by which two notes count as one: the line and the suggestion may differ.
type identity struct {
	code    model.Code
	cluster string
	object  string
	path    string
}

func identityOf(n model.Note) identity {
	return identity{n.Code, n.Meta.Origin.Cluster(), n.Meta.Key(), n.Path}
}

// difference returns the notes of now that are not in last, and the mended ones: those of last that are not in now.
// Each comes once.
func difference(last, now []model.Note) (added, mended []model.Note) {
	return without(now, last), without(last, now)
}

func without(notes, others []model.Note) []model.Note {
	known := make(map[identity]bool, len(others))
	for _, n := range others {
		known[identityOf(n)] = true
	}
	var out []model.Note
	for _, n := range notes {
		if id := identityOf(n); !known[id] {
			known[id] = true
			out = append(out, n)
		}
	}
	return out
}
