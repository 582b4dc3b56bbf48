package validation

import (
	"slices"
	"time"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// ofLive is why a running discovery does not judge something.
const ofLive = "discovery does not know it"

// Live is what a running discovery serves, and the proxies that are connected to it.
type Live struct {
	Settings  model.Settings
	Groups    []model.Group // of all its sources
	Connected []model.Proxy
	Also      func(*model.Mesh) []model.Note // notes that do not follow from a mesh alone; nil for none
	Class     string                         // of the Ingresses that it serves; empty for every class
	Late      []string                       // sources of which it does not have everything
	Now       time.Time                      // the age of objects that it does not have, where the others have one
}

// Judge judges objects as if they were served too, in the place of those of the same name. Of the notes it returns those about these objects, those
// about connected proxies of their namespaces, and those about other objects that there are not without them.
func (l Live) Judge(objects []*model.Object, found []config.Problem) Verdict {
	v := Verdict{Objects: len(objects), Problems: append([]config.Problem{}, found...), reason: ofLive}
	cluster := Registries{{Cluster: true}} // Services that are missed by Ingresses may be there: only a store has them by name
	mine := Mesh{Settings: l.Settings, IngressClass: l.Class, Elsewhere: cluster}.understand(objects)
	v.Problems = append(v.Problems, mine.problems...)
	base := model.NewOf(l.Settings, slices.Values(l.Groups))
	before, judged := base.NotesAfter(nil, l.Connected...)
	with, compared := replacing(mine.groups).in(l.Groups, l.Now)
	next := base.Next(slices.Values(with))
	notes, _ := next.NotesAfter(judged, l.Connected...)
	if l.Also != nil {
		before, notes = append(before, l.Also(base)...), append(notes, l.Also(next)...)
	}
	v.Problems = append(v.Problems, about{objects, l.Connected, base.Settings().RootNamespace()}.of(notes, before)...)
	v.NotJudged = mine.left
	for _, source := range l.Late {
		v.NotJudged = append(v.NotJudged, "what source "+source+" has not sent yet")
	}
	slices.Sort(v.NotJudged)
	v.NotJudged = slices.Compact(v.NotJudged)
	compared.Proxies, compared.NotCompared = len(l.Connected), len(objects)-len(mine.groups[0].Objects)
	v.Live = &compared
	return v
}

// about is what notes are told about.
type about struct {
	objects   []*model.Object
	connected []model.Proxy
	root      string // its objects are about the proxies of every namespace
}

// of returns the notes of now that are about these, and those that are not among the ones before.
func (a about) of(now, before []model.Note) (out []config.Problem) {
	theirs, namespaces := map[string]bool{}, map[string]bool{}
	for _, o := range a.objects {
		theirs[o.Key()], namespaces[o.Namespace] = true, true
	}
	if namespaces[a.root] {
		for _, w := range a.connected {
			namespaces[w.Namespace] = true
		}
	}
	known := map[noteKey]bool{}
	for _, n := range before {
		known[keyOf(n)] = true
	}
	for _, n := range now {
		p := config.OfNote(n)
		switch {
		case theirs[n.Meta.Key()], n.Meta.Kind == "Proxy" && namespaces[n.Meta.Namespace], n.Meta.Kind == "Namespace" && namespaces[n.Meta.Name]:
		case known[keyOf(n)]:
			continue
		default:
			p.Message = "through these files: " + p.Message
		}
		out = append(out, p)
	}
	return out
}

// noteKey holds the fields by which two notes count as one: the line and the suggestion may differ.
type noteKey struct {
	code      model.Code
	key, path string
}

func keyOf(n model.Note) noteKey { return noteKey{n.Code, n.Meta.Key(), n.Path} }

// Registry is a registry that serve has beside the files, as far as it is known without asking it.
type Registry struct {
	Name  string
	Hosts model.Grant // that its services may have

	// Cluster is that it has namespaces, and Pods with labels, too.
	Cluster bool
}

// Registries are those that serve has beside the files.
type Registries []Registry

func isCluster(r Registry) bool { return r.Cluster }

func (all Registries) has(property func(Registry) bool) bool {
	return slices.ContainsFunc(all, property)
}

// Names returns the names of the registries.
func (all Registries) Names() (out []string) {
	for _, r := range all {
		out = append(out, r.Name)
	}
	return out
}

// gives reports whether the registry may have a service with the host, or one that a wildcard matches.
func (r Registry) gives(host string) bool {
	if _, err := r.Hosts.Right(host); err == nil {
		return true
	}
	return model.IsWildcard(host) && r.Hosts.Suffix != "" && model.HostMatches(host, "any."+r.Hosts.Suffix)
}

// missing returns a name for what a note says that the mesh lacks, if a registry may have it; "" if the note counts.
func (all Registries) missing(n model.Note, mesh *model.Mesh) string {
	switch n.Code {
	case model.UnknownHost, model.UnknownPort, model.NotHTTP:
		if all.has(func(r Registry) bool { return r.gives(n.Missing) }) {
			return "host " + n.Missing
		}
	case model.EmptySubset:
		s := mesh.Service(n.Missing) // of which a cluster's Pods may be endpoints
		if all.has(func(r Registry) bool { return r.gives(n.Missing) || r.Cluster && s != nil && len(s.Selector) > 0 }) {
			return "endpoints of " + n.Missing
		}
	case model.UnknownNamespace:
		if all.has(isCluster) {
			return "namespace " + n.Missing
		}
	case model.EmptySelector, model.NoAddress:
		if len(all) > 0 {
			return "workloads of " + n.Meta.Kind + " " + n.Meta.Namespace + "/" + n.Meta.Name
		}
	}
	return ""
}
