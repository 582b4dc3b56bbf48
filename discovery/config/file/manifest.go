package file

import (
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Manifests makes groups of services and workloads from objects of Kubernetes' own kinds.
type Manifests interface {
	// Put adds an object for which config.IsManifest is true, and returns its problems.
	Put(o *model.Object) []config.Problem
	Delete(o model.Meta)
	// Changes returns the groups that have changed since the last call, and new problems between objects.
	Changes() (map[string]model.Group, []config.Problem)
}

// understand replaces objects of Kubernetes by the groups that are made from them.
func understand(m Manifests, groups map[string]model.Group) (problems []config.Problem) {
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		if !config.IsManifest(objectKind(key)) {
			continue
		}
		switch objects := groups[key].Objects; {
		case m == nil:
		case len(objects) > 0:
			problems = append(problems, m.Put(objects[0])...)
		default:
			m.Delete(metaOf(key))
		}
		delete(groups, key)
	}
	if m != nil {
		made, found := m.Changes()
		maps.Copy(groups, made)
		problems = append(problems, found...)
	}
	return problems
}

// metaOf reads the key of an object.
func metaOf(key string) model.Meta {
	kind, rest, _ := strings.Cut(key, "/")
	namespace, name, _ := strings.Cut(rest, "/")
	return model.Meta{Kind: kind, Namespace: namespace, Name: name}
}
