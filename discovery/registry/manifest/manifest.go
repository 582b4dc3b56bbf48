package manifest

//lint:file-ignore SA1019 deprecated types of Kubernetes are read too: files still have them

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strict "sigs.k8s.io/json"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Manifests holds the objects of Kubernetes in a set of files.
type Manifests struct {
	catalog *catalog.Catalog
	known   map[string]namespace          // as they are written, by namespace
	served  map[string]map[objectKey]held // as the catalog has them, by namespace
	stale   map[string]bool               // namespaces with a change since the last call of Changes
	said    map[string][]config.Problem   // by namespace
	broken  map[string]bool               // keys of objects that cannot be read
	changed map[string]model.Group        // groups that the catalog does not make, since the last call of Changes

	ingresses Ingresses
	entries   map[string]entry // Ingresses, and the objects that they name, by key
	unpassed  map[string]bool  // keys of entries that were not passed on yet
	passed    bool             // once at least
}

// objectKey identifies an object of a namespace.
type objectKey struct{ kind, name string }

// held is an object, with its metadata that name its place.
type held struct {
	metav1.Object
	meta model.Meta
}

// New returns an empty Manifests, whose Services have hosts of a domain. Ingresses, IngressClasses and Services are passed on to ingresses, nil if Ingresses are not
// served.
func New(d model.Domain, ingresses Ingresses) *Manifests {
	return &Manifests{
		ingresses: ingresses, entries: map[string]entry{}, unpassed: map[string]bool{},
		catalog: catalog.New(catalog.Options{Domain: d}), known: map[string]namespace{}, served: map[string]map[objectKey]held{}, stale: map[string]bool{},
		said: map[string][]config.Problem{}, broken: map[string]bool{}, changed: map[string]model.Group{},
	}
}

// Put adds an object whose Spec is the whole object, a structpb.Struct. It returns the problems of the object; with an
// error the form before stays.
func (m *Manifests) Put(o *model.Object) []config.Problem {
	broken := func(text string) []config.Problem {
		m.broken[o.Key()] = true
		m.changed[faultKey(o.Meta)] = model.Group{Faults: []string{o.Origin.String() + ": " + text}}
		return []config.Problem{problem(o.Meta, config.Error, "", "%s", text)}
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
		problems = append(problems, problem(o.Meta, config.Warning, "", "%v, ignored", u))
	}
	m.mended(o.Meta)
	meta := o.Meta
	meta.Namespace = namespaceOf(meta)
	object.SetNamespace(meta.Namespace) // "default" if it names none
	if problem := m.putIngress(object, o.Meta); problem != nil {
		problems = append(problems, *problem)
	}
	if isIngress(o.Kind) {
		return problems
	}
	if m.known[meta.Namespace] == nil {
		m.known[meta.Namespace] = namespace{}
	}
	m.known[meta.Namespace][objectKey{o.Kind, o.Name}] = held{object, o.Meta}
	m.stale[meta.Namespace] = true
	return problems
}

// problem returns a problem of an object.
func problem(o model.Meta, severity config.Severity, path, format string, args ...any) config.Problem {
	return config.Problem{
		File: o.Origin.File, Line: o.Origin.Line, Severity: severity, Object: titleOf(o), Path: path,
		Message: fmt.Sprintf(format, args...),
	}
}

func titleOf(o model.Meta) string {
	if o.Kind != "IngressClass" && namespaceOf(o) == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}

// faultKey returns the key of a group that holds no service: a fault removes nothing.
func faultKey(o model.Meta) string { return "manifest " + o.Key() }

func (m *Manifests) mended(o model.Meta) {
	if m.broken[o.Key()] {
		delete(m.broken, o.Key())
		m.changed[faultKey(o)] = model.Group{}
	}
}

// Delete removes an object.
func (m *Manifests) Delete(o model.Meta) {
	m.mended(o)
	m.deleteIngress(o)
	in := namespaceOf(o)
	if known := m.known[in]; known != nil {
		delete(known, objectKey{o.Kind, o.Name})
		m.stale[in] = true
	}
}

// Changes returns the groups that have changed since the last call, and new problems between objects. Faults begin with
// the file and line of their object.
func (m *Manifests) Changes() (map[string]model.Group, []config.Problem) {
	m.passIngresses()
	var problems []config.Problem
	for _, name := range slices.Sorted(maps.Keys(m.stale)) {
		served, templates, found := m.known[name].served()
		for _, p := range found {
			if !slices.Contains(m.said[name], p) {
				problems = append(problems, p)
			}
		}
		m.said[name] = found
		m.replace(name, served, templates)
	}
	clear(m.stale)
	out := m.catalog.Changes()
	for key, g := range out {
		if len(g.Faults) == 0 {
			continue
		}
		g.Faults = slices.Clone(g.Faults)
		for i, fault := range g.Faults {
			if at := m.place(key); at != "" {
				g.Faults[i] = at + ": " + fault
			}
		}
		out[key] = g
	}
	maps.Copy(out, m.changed)
	clear(m.changed)
	return out, problems
}

// replace sets the served objects of a namespace. Templates do not pass through the catalog, which has none.
func (m *Manifests) replace(name string, served map[objectKey]held, templates []template) {
	was := m.served[name]
	for _, t := range templates {
		served[objectKey{"template of " + t.meta.Kind, t.meta.Name}] = held{meta: t.meta}
		m.changed[group(t.meta)] = model.Group{Objects: []*model.Object{model.NewTemplate(t.meta, t.labels, t.account, t.ports)}}
	}
	for key, o := range was {
		if _, stays := served[key]; stays {
			continue
		}
		if o.Object == nil {
			m.changed[group(o.meta)] = model.Group{}
		} else {
			m.catalog.Delete(catalog.Key{Kind: catalog.Kind(key.kind), Namespace: name, Name: key.name})
		}
	}
	for _, o := range served {
		if o.Object != nil {
			m.catalog.Put(o.Object, o.meta.Origin)
		}
	}
	m.served[name] = served
	if len(served) == 0 {
		delete(m.served, name)
	}
	if len(m.known[name]) == 0 {
		delete(m.known, name)
	}
}

// place returns the file and line of a group's object, "" if it is not known.
func (m *Manifests) place(group string) string {
	kind, rest, _ := strings.Cut(group, "/")
	in, name, _ := strings.Cut(rest, "/")
	return m.served[in][objectKey{kind, name}].meta.Origin.String()
}

// namespaceOf returns the namespace of an object: "" for a kind without namespaces.
func namespaceOf(o model.Meta) string {
	switch o.Kind {
	case "Node", "Namespace", "IngressClass":
		return ""
	default:
		return o.Namespace
	}
}

// empty returns an empty object of a kind, nil if the kind is not read.
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
	case "Endpoints":
		return &corev1.Endpoints{}
	case "EndpointSlice":
		return &discoveryv1.EndpointSlice{}
	case "Deployment":
		return &starter{Spec: new(deploymentSpec)}
	case "StatefulSet":
		return &starter{Spec: new(statefulSetSpec)}
	case "DaemonSet":
		return &starter{Spec: new(daemonSetSpec)}
	case "ReplicaSet":
		return &starter{Spec: new(replicaSetSpec)}
	case "Ingress":
		return &networkingv1.Ingress{}
	case "IngressClass":
		return &networkingv1.IngressClass{}
	default:
		return nil
	}
}

// Ingresses receives the Ingresses of the files, with their IngressClasses and Services.
type Ingresses interface {
	Apply(func(*ingress.Store))
	Synced() // all objects were passed on
}

// entry is an object that was put, with its place; after Delete the last one.
type entry struct {
	object metav1.Object
	at     model.Origin
	gone   bool
}

func isIngress(kind string) bool { return kind == "Ingress" || kind == "IngressClass" }

// putIngress keeps an object for Ingresses. It returns the problem that none are served.
func (m *Manifests) putIngress(o metav1.Object, meta model.Meta) *config.Problem {
	switch {
	case !isIngress(meta.Kind) && meta.Kind != "Service":
		return nil
	case m.ingresses == nil && meta.Kind == "Ingress":
		p := problem(meta, config.Warning, "", "is not served: --ingressClass is not given")
		return &p
	case m.ingresses == nil:
		return nil
	}
	m.entries[meta.Key()], m.unpassed[meta.Key()] = entry{object: o, at: meta.Origin}, true
	return nil
}

func (m *Manifests) deleteIngress(meta model.Meta) {
	if was, known := m.entries[meta.Key()]; known {
		m.entries[meta.Key()], m.unpassed[meta.Key()] = entry{object: was.object, gone: true}, true
	}
}

// passIngresses passes on the objects that have changed. The first time it removes those of an earlier Manifests.
func (m *Manifests) passIngresses() {
	if m.ingresses == nil || m.passed && len(m.unpassed) == 0 {
		return
	}
	m.ingresses.Apply(func(to *ingress.Store) {
		if !m.passed {
			to.Clear()
		}
		for _, key := range slices.Sorted(maps.Keys(m.unpassed)) {
			switch e := m.entries[key]; {
			case e.gone:
				to.Delete(e.object)
				delete(m.entries, key)
			default:
				to.Put(e.object, e.at)
			}
		}
	})
	clear(m.unpassed)
	if !m.passed {
		m.passed = true
		m.ingresses.Synced()
	}
}
