package validation

import (
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/manifest"
)

// understood are the objects of files as a store sends them, and what is wrong with Kubernetes' own.
type understood struct {
	groups   []model.Group
	problems []config.Problem
	left     []string // names of Services that Ingresses want, and that the files do not have
}

// understand makes groups of objects.
func (m Mesh) understand(objects []*model.Object) (out understood) {
	options := ingress.Options{Domain: m.Settings.Domain, Class: m.IngressClass, AnyClass: m.IngressClass == ""}
	fromFiles := ingresses{ingress.New(options)}
	manifests, rest, places := manifest.New(m.Settings.Domain, fromFiles), model.Group{}, map[string]model.Origin{}
	services := false
	for _, o := range objects {
		if config.IsManifest(o.Kind) {
			out.problems = append(out.problems, manifests.Put(o)...)
			places[o.Key()] = o.Origin
			services = services || o.Kind == "Service"
		} else {
			rest.Objects = append(rest.Objects, o)
		}
	}
	made, found := manifests.Changes()
	out.problems = append(out.problems, found...)
	for _, f := range fromFiles.faults() {
		if f.Missing && (!services || m.Elsewhere.has(isCluster)) {
			out.left = append(out.left, "services of Ingress "+f.Of.String())
			continue
		}
		out.problems = append(out.problems, ingressProblem(f))
	}
	out.groups = append(out.groups, rest)
	for _, key := range slices.Sorted(maps.Keys(made)) {
		g := made[key]
		out.groups = append(out.groups, g)
		at, known := places[key] // else Put has returned the problem
		for _, fault := range g.Faults {
			if known {
				out.problems = append(out.problems, config.Problem{
					File: at.File, Line: at.Line, Severity: config.Error, Object: key, Message: strings.TrimPrefix(fault, at.String()+": "),
				})
			}
		}
	}
	return out
}

// ingresses are the Ingresses of files.
type ingresses struct{ table *ingress.Table }

func (i ingresses) Apply(do func(*ingress.Store)) { do(i.table.Store("")) }
func (i ingresses) Synced()                       {}

// faults returns the faults of the Ingresses. Files hold no Secrets, so that all of these count as there.
func (i ingresses) faults() []ingress.Fault {
	i.table.Changes()
	secrets := map[ingress.Name]string{}
	for _, name := range i.table.Wanted() {
		secrets[name] = ""
	}
	i.table.SetSecrets(secrets)
	i.table.Changes()
	return i.table.Faults()
}

func ingressProblem(f ingress.Fault) config.Problem {
	p := config.Problem{File: f.Origin.File, Line: f.Line, Severity: config.Warning, Object: "Ingress " + f.Of.String(), Path: f.Path, Message: f.Text}
	if f.Refused {
		p.Severity = config.Error
	}
	return p
}

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
