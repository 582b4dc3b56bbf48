package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/kube"
	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Ingress reads the Ingresses of a cluster, with their IngressClasses and Services. It sends no objects: it passes them
// to the source of Ingresses.
type Ingress struct {
	Connect    func() (*kube.Client, error) // called by each Run, which closes the client's connections at its end
	Cluster    string
	Namespaces []string // of the Ingresses that are read; empty for all
	Class      string   // the class that needs no IngressClass
	Into       Into
	// Show, if not nil, is called with the status of all Ingresses after each change.
	Show func(map[ingress.Name]Shown)

	mu      sync.Mutex
	status  map[ingress.Name]Shown // of all Ingresses; nil until the first list
	changed bool                   // since the last call of Show
	ours    map[ingress.Name]bool

	classes bool // they were listed, in some Run
}

// Into receives the objects. They stay when a Run ends.
type Into interface {
	Apply(func(*ingress.Store))
	Synced() // all objects were passed on
}

// Run passes objects on until ctx is done, or the API server refuses or cannot be reached. The objects of the Run before
// stay until this one has a list of each kind. Its updates have faults only.
func (s *Ingress) Run(ctx context.Context, updates chan<- model.Update) error {
	return kube.Run(ctx, s.Connect, func(ctx context.Context, session *kube.Session) error {
		s.send(ctx, session, updates)
		return nil
	})
}

func isClass(w *kube.Watch) bool {
	_, is := w.Object.(*networkingv1.IngressClass)
	return is
}

func ingressWatches(namespaces []string) (out []*kube.Watch) {
	api := networkingv1.Version()
	out = append(out, &kube.Watch{Resource: api.WithResource("ingressclasses"), Object: &networkingv1.IngressClass{}, Strip: stripIngress, Optional: true})
	for _, namespace := range kube.Namespaces(namespaces) {
		out = append(out,
			&kube.Watch{Resource: api.WithResource("ingresses"), Object: &networkingv1.Ingress{}, Namespace: namespace, Strip: stripIngress},
			&kube.Watch{Resource: corev1.SchemeGroupVersion.WithResource("services"), Object: &corev1.Service{}, Namespace: namespace, Strip: stripIngress})
	}
	return out
}

// stripIngress removes the fields that are not read; of a Service it keeps only the ports.
func stripIngress(o any) {
	if m, ok := o.(metav1.Object); ok {
		m.SetManagedFields(slices.DeleteFunc(m.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager != statusManager }))
		m.SetOwnerReferences(nil)
		m.SetFinalizers(nil)
	}
	switch o := o.(type) {
	case *networkingv1.Ingress:
		maps.DeleteFunc(o.Annotations, func(key, _ string) bool { return key == corev1.LastAppliedConfigAnnotation })
	case *corev1.Service:
		o.Labels, o.Annotations = nil, nil
		o.Spec, o.Status = corev1.ServiceSpec{Ports: o.Spec.Ports}, corev1.ServiceStatus{}
	}
}

// send receives events until ctx is done, and passes them on when all watches have a list or were refused.
func (s *Ingress) send(ctx context.Context, session *kube.Session, updates chan<- model.Update) {
	for _, w := range ingressWatches(s.Namespaces) {
		session.Start(w)
	}
	var waiting []kube.Event
	unsent, synced := map[string]model.Group{}, false
	for {
		var out chan<- model.Update
		if session.Listed() && (len(unsent) > 0 || !synced) {
			out = updates
		}
		select {
		case e := <-session.Events():
			session.Apply(e, func(e kube.Event) {
				if isClass(e.Of) && (e.List || e.Refused != nil) {
					unsent["IngressClass"] = s.classRights(e)
				}
				waiting = append(waiting, e)
			})
			if session.Listed() {
				s.applyEvents(waiting)
				waiting = nil
			}
		case out <- model.Update{Groups: unsent, Synced: true}:
			unsent, synced = map[string]model.Group{}, true
		case <-ctx.Done():
			return
		}
	}
}

// classRights returns the group of the right to read classes. Without it those that this process has read before stay.
func (s *Ingress) classRights(e kube.Event) model.Group {
	switch {
	case e.Refused == nil:
		s.classes = true
		return model.Group{}
	case s.classes:
		return model.Group{Faults: []string{fmt.Sprintf("classes cannot be read, those that were read before are used until this process ends: %v", e.Refused)}}
	default:
		return model.Group{Faults: []string{fmt.Sprintf("classes are known by the name %s alone: %v", s.Class, e.Refused)}}
	}
}

// applyEvents passes events on, all at once.
func (s *Ingress) applyEvents(events []kube.Event) {
	s.Into.Apply(func(to *ingress.Store) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.status == nil {
			s.status = map[ingress.Name]Shown{}
		}
		for _, e := range events {
			s.apply(to, e)
		}
	})
	s.Into.Synced()
}

// Served receives the Ingresses of the cluster that are served now, after each change of the objects that were passed
// on.
func (s *Ingress) Served(ours map[ingress.Name]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Show == nil || s.status == nil || !s.changed && maps.Equal(ours, s.ours) {
		return
	}
	s.ours, s.changed = maps.Clone(ours), false
	all := maps.Clone(s.status)
	for name := range s.ours {
		is := all[name]
		is.Ours = true
		all[name] = is
	}
	s.Show(all)
}

func (s *Ingress) setStatus(o any) {
	if i, ok := o.(*networkingv1.Ingress); ok {
		s.status[nameOf(i)], s.changed = Shown{Wrote: wrote(i), Addresses: i.Status.LoadBalancer.Ingress, Version: i.ResourceVersion}, true
	}
}

func nameOf(o metav1.Object) ingress.Name {
	return ingress.Name{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// apply applies one event.
func (s *Ingress) apply(to *ingress.Store, e kube.Event) {
	put := func(o any) {
		if m, ok := o.(metav1.Object); ok {
			to.Put(o, model.Origin{Record: &model.Record{Cluster: s.Cluster, UID: string(m.GetUID()), Generation: m.GetGeneration(), Relayed: true}})
		}
		s.setStatus(o)
	}
	switch {
	case e.Refused != nil:
	case e.List:
		listed := map[ingress.Name]bool{}
		for _, o := range e.All {
			put(o)
			if m, ok := o.(metav1.Object); ok {
				listed[nameOf(m)] = true
			}
		}
		keep := func(n ingress.Name) bool { return listed[n] || e.Of.Namespace != "" && n.Namespace != e.Of.Namespace }
		to.Keep(e.Of.Object, keep)
		if _, is := e.Of.Object.(*networkingv1.Ingress); is {
			maps.DeleteFunc(s.status, func(n ingress.Name, _ Shown) bool { return !keep(n) })
			s.changed = true
		}
	case e.Put != nil:
		put(e.Put)
	default:
		to.Delete(e.Gone)
		if i, ok := e.Gone.(*networkingv1.Ingress); ok {
			delete(s.status, nameOf(i))
			s.changed = true
		}
	}
}
