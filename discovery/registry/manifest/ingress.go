package manifest

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/model"
)

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
