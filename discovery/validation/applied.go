package validation

import (
	"slices"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Beside returns the problems that objects have together with those that are there, to which they may refer, and which
// they replace. Problems of the others are not theirs.
func (m Mesh) Beside(applied []config.Written, present []*model.Object) []config.Problem {
	theirs, ingresses := map[string]bool{}, map[string]bool{}
	for _, w := range applied {
		theirs[w.Key] = true
		ingresses[w.Title()] = w.Kind == "Ingress"
	}
	all := slices.DeleteFunc(slices.Clone(present), func(o *model.Object) bool { return theirs[o.Key()] })
	for _, w := range applied {
		all = append(all, w.Object)
	}
	understood := m.understand(all)
	problems := slices.DeleteFunc(understood.problems, func(p config.Problem) bool { return !ingresses[p.Object] })
	notes := model.NewOf(m.Settings, slices.Values(understood.groups)).Notes()
	notes = slices.DeleteFunc(notes, func(n model.Note) bool { return !theirs[n.Meta.Key()] })
	return append(problems, config.OfNotes(notes)...)
}

// WithoutManifests leaves out Kubernetes' own objects, which only a directory takes, and says so of each.
func WithoutManifests(objects []config.Written) (rest []config.Written, problems []config.Problem) {
	for _, w := range objects {
		if !config.IsManifest(w.Kind) {
			rest = append(rest, w)
			continue
		}
		problems = append(problems, config.Problem{
			File: w.Object.Origin.File, Line: w.Line, Severity: config.Warning, Object: w.Title(), Message: "is Kubernetes' own, not written: kubectl apply writes it",
		})
	}
	return rest, problems
}
