package model

import "fmt"

// maxNotes is how many notes of one object are named. The others are counted: an object can have one for each of its
// fields.
const maxNotes = 100

// bounded returns notes, which are in the order of their objects, with at most maxNotes of an object and one that counts
// the others. Their texts are on one line each.
func bounded(notes []Note) []Note {
	out := notes[:0]
	for first := 0; first < len(notes); {
		end := first + 1
		for end < len(notes) && same(notes[first].Meta, notes[end].Meta) {
			end++
		}
		object := notes[first].Meta
		named := min(end-first, maxNotes)
		for _, n := range notes[first : first+named] {
			n.Path, n.Message = OneLine(n.Path), OneLine(n.Message)
			out = append(out, n)
		}
		if more := end - first - named; more > 0 {
			out = append(out, Note{Code: MoreNotes, Meta: object, Message: fmt.Sprintf("has %d more notes, which are not named", more)})
		}
		first = end
	}
	return out
}

func same(a, b Meta) bool {
	return a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name && a.Origin.Cluster() == b.Origin.Cluster()
}
