package main

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/manifest"
)

// newStore returns the store of a directory, which reads Kubernetes' objects, of a cluster with the domain, beside Istio's.
func newStore(dir string, d model.Domain, wipeDelay time.Duration, log *slog.Logger) *file.Source {
	store := file.New(dir, wipeDelay, log)
	store.Manifests = func() file.Manifests { return manifest.New(d) }
	return store
}

// understood makes groups of the objects of files, as a store does, and returns the problems of Kubernetes' own
// objects.
func understood(d model.Domain, objects []*model.Object) (groups []model.Group, problems []config.Problem) {
	manifests, rest, places := manifest.New(d), model.Group{}, map[string]model.Origin{}
	for _, o := range objects {
		if config.IsManifest(o.Kind) {
			problems = append(problems, manifests.Put(o)...)
			places[o.Key()] = o.Origin
		} else {
			rest.Objects = append(rest.Objects, o)
		}
	}
	made, found := manifests.Changes()
	problems = append(problems, found...)
	groups = append(groups, rest)
	for _, key := range slices.Sorted(maps.Keys(made)) {
		g := made[key]
		groups = append(groups, g)
		at, known := places[key] // else Put has returned the problem
		for _, fault := range g.Faults {
			if known {
				problems = append(problems, config.Problem{
					File: at.File, Line: at.Line, Severity: config.Error, Object: key, Message: strings.TrimPrefix(fault, at.String()+": "),
				})
			}
		}
	}
	return groups, problems
}
