package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/manifest"
)

// judgedIngresses is a table of the Ingresses that a command judges.
type judgedIngresses struct{ *ingress.Table }

func (j judgedIngresses) Apply(do func(*ingress.Store)) { do(j.Store("")) }
func (j judgedIngresses) Synced()                       {}

// problems returns the problems of the Ingresses. The Secrets of a mesh are not known here, nor are its Services if the files
// have none.
func (j judgedIngresses) problems(services bool) (out []config.Problem) {
	j.Changes()
	secrets := map[ingress.Name]string{}
	for _, name := range j.Wanted() {
		secrets[name] = ""
	}
	j.SetSecrets(secrets)
	j.Changes()
	for _, f := range j.Faults() {
		if f.Missing && !services {
			continue
		}
		p := config.Problem{File: f.Origin.File, Line: f.Line, Severity: config.Warning, Object: "Ingress " + f.Of.String(), Path: f.Path, Message: f.Text}
		if f.Refused {
			p.Severity = config.Error
		}
		out = append(out, p)
	}
	return out
}

// understood makes groups of the objects of files, as a store does, and returns the problems of Kubernetes' own
// objects. class is that of serve's --ingressClass; if empty, Ingresses of every class are judged.
func understood(d model.Domain, objects []*model.Object, class string) (groups []model.Group, problems []config.Problem) {
	ingresses := judgedIngresses{ingress.New(ingress.Options{Domain: d, Class: class, AnyClass: class == ""})}
	manifests, rest, places := manifest.New(d, ingresses), model.Group{}, map[string]model.Origin{}
	services := false
	for _, o := range objects {
		if config.IsManifest(o.Kind) {
			problems = append(problems, manifests.Put(o)...)
			places[o.Key()] = o.Origin
			services = services || o.Kind == "Service"
		} else {
			rest.Objects = append(rest.Objects, o)
		}
	}
	made, found := manifests.Changes()
	problems = slices.Concat(problems, found, ingresses.problems(services))
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
