package notes

import "github.com/pilotlight/pilotlight/discovery/model"

// identity is what makes two notes the same, whatever line the field is on by now and whatever is suggested instead.
type identity struct {
	code    model.Code
	cluster string
	object  string
	path    string
}

func identityOf(n model.Note) identity {
	return identity{n.Code, n.Meta.Origin.Cluster(), n.Meta.Key(), n.Path}
}

// difference returns what now has and last had not, and what is mended: the other way round. Each is told once.
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
