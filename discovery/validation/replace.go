package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery/model"
)

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
