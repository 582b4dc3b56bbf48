package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

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

// Compared is how the objects of files compare with those that a running discovery serves.
type Compared struct {
	Proxies     int      `json:"proxies"` // connected
	Same        int      `json:"same"`
	Changed     []string `json:"changed,omitempty"`
	New         []string `json:"new,omitempty"`
	NotCompared int      `json:"notCompared,omitempty"` // those of Kubernetes
}

// text returns it for people; "" for nil.
func (c *Compared) text() string {
	if c == nil {
		return ""
	}
	out := fmt.Sprintf("; beside what discovery serves to %d proxies: %d as served, %d changed%s, %d new%s",
		c.Proxies, c.Same, len(c.Changed), someOf(c.Changed), len(c.New), someOf(c.New))
	if c.NotCompared > 0 {
		out += fmt.Sprintf(", %d of Kubernetes not compared", c.NotCompared)
	}
	return out
}

// someOf returns the first names.
func someOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	text := strings.Join(names[:min(len(names), mostNamed)], ", ")
	if len(names) > mostNamed {
		text += ", …"
	}
	return " (" + model.OneLine(text) + ")"
}

// replacement puts groups of files in the place of what is served under the same names.
type replacement struct {
	groups    []model.Group
	objects   map[string]*model.Object    // by key: the one that is served, nil for none
	services  map[string][]*model.Service // by name: those that are served
	workloads map[string]bool             // by name
	aged      bool                        // the store of some object that is served gives it an age
}

func replacing(groups []model.Group) replacement {
	r := replacement{groups: groups, objects: map[string]*model.Object{}, services: map[string][]*model.Service{}, workloads: map[string]bool{}}
	for _, g := range groups {
		for _, o := range g.Objects {
			r.objects[o.Key()] = nil
		}
		for _, s := range g.Services {
			r.services[serviceName(s)] = nil
		}
		for _, w := range g.Workloads {
			r.workloads[workloadName(w)] = true
		}
	}
	return r
}

func serviceName(s *model.Service) string { return s.Registry + " " + s.Namespace + " " + s.Host }

func workloadName(w *model.Workload) string { return w.Registry + " " + w.Namespace + " " + w.Name }

// in returns the groups that would be served. now is the age of an object that is not served yet, where others have an age.
func (r replacement) in(served []model.Group, now time.Time) (out []model.Group, c Compared) {
	for _, g := range served {
		out = append(out, r.rest(g))
	}
	if !r.aged {
		now = time.Time{}
	}
	for _, g := range r.groups {
		g.Objects = slices.Clone(g.Objects)
		for i, o := range g.Objects {
			g.Objects[i] = r.placed(o, now, &c)
		}
		g.Services = slices.Clone(g.Services)
		for i, s := range g.Services {
			g.Services[i] = r.peopled(s)
		}
		out = append(out, g)
	}
	return out, c
}

// rest returns a group that is served without what is replaced, and remembers that.
func (r *replacement) rest(g model.Group) model.Group {
	g.Objects = slices.DeleteFunc(slices.Clone(g.Objects), func(o *model.Object) bool {
		r.aged = r.aged || !o.Created.IsZero()
		was, replaced := r.objects[o.Key()]
		if replaced && (was == nil || o.Older(was.Meta) < 0) {
			r.objects[o.Key()] = o
		}
		return replaced
	})
	g.Services = slices.DeleteFunc(slices.Clone(g.Services), func(s *model.Service) bool {
		was, replaced := r.services[serviceName(s)]
		if replaced {
			r.services[serviceName(s)] = append(was, s)
		}
		return replaced
	})
	g.Workloads = slices.DeleteFunc(slices.Clone(g.Workloads), func(w *model.Workload) bool { return r.workloads[workloadName(w)] })
	return g
}

// placed returns an object with the age that it has where it is served: which of two objects counts depends on that.
func (r *replacement) placed(o *model.Object, now time.Time, c *Compared) *model.Object {
	aged, was := *o, r.objects[o.Key()]
	title := strings.TrimSpace(o.Kind + " " + o.Namespace + "/" + o.Name)
	switch {
	case was == nil:
		c.New = append(c.New, title)
		aged.Created = now
		return &aged
	case same(was, o):
		c.Same++
	default:
		c.Changed = append(c.Changed, title)
	}
	aged.Created = was.Created
	return &aged
}

// same reports whether two objects of one name have the same effect.
func same(a, b *model.Object) bool {
	x, known := a.Spec.(proto.Message)
	y, also := b.Spec.(proto.Message)
	return known && also && proto.Equal(x, y) && maps.Equal(a.Labels, b.Labels) && a.DryRun == b.DryRun && a.Closed == b.Closed && a.WholeHosts == b.WholeHosts
}

// peopled returns a service with the endpoints that it has where it is served, unless the files have some.
func (r *replacement) peopled(s *model.Service) *model.Service {
	was := r.services[serviceName(s)]
	if len(was) == 0 || len(s.Endpoints) > 0 {
		return s
	}
	out := *s
	for _, w := range was {
		out.Endpoints = append(out.Endpoints, w.Endpoints...)
	}
	return &out
}
