package manifest

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strict "sigs.k8s.io/json"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Manifests holds the objects of some files.
type Manifests struct {
	catalog *catalog.Catalog
	places  map[string]string      // of objects, by key
	broken  map[string]bool        // keys of objects that cannot be read
	changed map[string]model.Group // faults that began or ended since the last call of Changes
}

// New returns an empty one.
func New() *Manifests {
	return &Manifests{catalog.New(catalog.Options{}), map[string]string{}, map[string]bool{}, map[string]model.Group{}}
}

// Put takes an object whose Spec is the whole of it, a structpb.Struct. It says what of it is not understood: an error keeps
// the form that was there before.
func (m *Manifests) Put(o *model.Object) []config.Problem {
	fault := func(severity config.Severity, format string, args ...any) config.Problem {
		return config.Problem{
			File: o.Origin.File, Line: o.Origin.Line, Severity: severity, Object: o.Kind + " " + o.Namespace + "/" + o.Name,
			Message: fmt.Sprintf(format, args...),
		}
	}
	broken := func(text string) []config.Problem {
		m.broken[o.Key()] = true
		m.changed[faultKey(o.Meta)] = model.Group{Faults: []string{o.Origin.String() + ": " + text}}
		return []config.Problem{fault(config.Error, "%s", text)}
	}
	written, _ := o.Spec.(*structpb.Struct)
	text, err := protojson.Marshal(written)
	object := empty(o.Kind)
	if err != nil || object == nil {
		return broken(fmt.Sprintf("cannot be read as %s: %v", o.Kind, err))
	}
	unknown, err := strict.UnmarshalStrict(text, object)
	if err != nil {
		return broken(fmt.Sprintf("cannot be read: %v", err))
	}
	var problems []config.Problem
	for _, u := range unknown {
		problems = append(problems, fault(config.Warning, "%v, ignored", u))
	}
	if namespaced(o.Kind) {
		object.SetNamespace(o.Namespace) // "default" where it names none
	}
	m.mended(o.Meta)
	m.places[o.Key()] = o.Origin.String()
	m.catalog.Put(object, o.Origin)
	return problems
}

// faultKey is the key of a group that holds no service: a fault takes nothing away.
func faultKey(o model.Meta) string { return "manifest " + o.Key() }

func (m *Manifests) mended(o model.Meta) {
	if m.broken[o.Key()] {
		delete(m.broken, o.Key())
		m.changed[faultKey(o)] = model.Group{}
	}
}

// Delete takes an object away.
func (m *Manifests) Delete(o model.Meta) {
	m.mended(o)
	delete(m.places, o.Key())
	key := catalog.Key{Kind: catalog.Kind(o.Kind), Name: o.Name}
	if namespaced(o.Kind) {
		key.Namespace = o.Namespace
	}
	m.catalog.Delete(key)
}

// Changes returns the groups that are others than at the last call. Faults begin with the file and line of their object.
func (m *Manifests) Changes() map[string]model.Group {
	out := m.catalog.Changes()
	for key, g := range out {
		if at := m.places[key]; at != "" {
			g.Faults = slices.Clone(g.Faults)
			for i, fault := range g.Faults {
				g.Faults[i] = at + ": " + fault
			}
			out[key] = g
		}
	}
	maps.Copy(out, m.changed)
	clear(m.changed)
	return out
}

func namespaced(kind string) bool { return kind != "Node" && kind != "Namespace" }

// empty returns an object of a kind, nil where that is not read.
func empty(kind string) metav1.Object {
	switch kind {
	case "Service":
		return &corev1.Service{}
	case "Pod":
		return &corev1.Pod{}
	case "Node":
		return &corev1.Node{}
	case "Namespace":
		return &corev1.Namespace{}
	case "EndpointSlice":
		return &discoveryv1.EndpointSlice{}
	default:
		return nil
	}
}
