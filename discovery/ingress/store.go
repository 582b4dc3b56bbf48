package ingress

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Store is the part of a Table that one store of objects fills. If several stores have an Ingress or an IngressClass of
// one name, one of them is used, as for Istio's objects: the older, then that of the store whose name sorts first. An
// object without a creationTimestamp is the oldest. A backend may be a Service of any store.
type Store struct {
	table *Table
	name  string
}

// Store returns the part of a store. Its name is that of a source.
func (t *Table) Store(name string) *Store { return &Store{t, name} }

// class is an IngressClass of a store.
type class struct {
	*networkingv1.IngressClass
	store string
}

// Put stores an object, in the place of an older form of it. The caller must not change the object afterwards. Objects
// of other types are ignored.
func (s *Store) Put(o any, at model.Origin) {
	switch o := o.(type) {
	case *networkingv1.Ingress:
		name := Name{o.Namespace, o.Name}
		if i := slices.IndexFunc(s.table.ingresses[name], s.hasIngress); i < 0 || !s.table.ingresses[name][i].same(o, at) {
			s.setIngress(name, readIngress(s.name, o, at))
		}
	case *networkingv1.IngressClass:
		s.setClass(o.Name, &class{o, s.name})
	case *corev1.Service:
		s.setService(Name{o.Namespace, o.Name}, &backend{s.name, o.Spec.Ports})
	}
}

// Delete removes an object, by the type, the namespace and the name of o.
func (s *Store) Delete(o any) {
	switch o := o.(type) {
	case *networkingv1.Ingress:
		s.setIngress(Name{o.Namespace, o.Name}, nil)
	case *networkingv1.IngressClass:
		s.setClass(o.Name, nil)
	case *corev1.Service:
		s.setService(Name{o.Namespace, o.Name}, nil)
	}
}

// Keep deletes the objects of the type of o for which keep returns false, such as those that are not in a new list.
func (s *Store) Keep(o any, keep func(Name) bool) {
	t := s.table
	switch o.(type) {
	case *networkingv1.Ingress:
		for name, copies := range maps.Clone(t.ingresses) {
			if slices.ContainsFunc(copies, s.hasIngress) && !keep(name) {
				s.setIngress(name, nil)
			}
		}
	case *networkingv1.IngressClass:
		for name, copies := range maps.Clone(t.classes) {
			if slices.ContainsFunc(copies, s.hasClass) && !keep(Name{"", name}) {
				s.setClass(name, nil)
			}
		}
	case *corev1.Service:
		for name, copies := range maps.Clone(t.services) {
			if slices.ContainsFunc(copies, s.hasService) && !keep(name) {
				s.setService(name, nil)
			}
		}
	}
}

// Clear removes all objects.
func (s *Store) Clear() {
	none := func(Name) bool { return false }
	for _, o := range []any{&networkingv1.Ingress{}, &networkingv1.IngressClass{}, &corev1.Service{}} {
		s.Keep(o, none)
	}
}

func (s *Store) hasIngress(i *ingress) bool { return i.store == s.name }
func (s *Store) hasClass(c class) bool      { return c.store == s.name }
func (s *Store) hasService(b backend) bool  { return b.store == s.name }

// setIngress replaces the Ingress of the store, nil for none.
func (s *Store) setIngress(name Name, i *ingress) {
	t := s.table
	before := t.ingresses[name]
	copies := slices.DeleteFunc(slices.Clone(before), s.hasIngress)
	if i == nil && len(copies) == len(before) {
		return
	}
	if i != nil {
		copies = append(copies, i)
		slices.SortFunc(copies, func(a, b *ingress) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.store, b.store))
		})
	}
	if t.ingresses[name] = copies; len(copies) == 0 {
		delete(t.ingresses, name)
	}
	t.pending.faults[name] = true
	was, is := first(before), first(copies)
	if was != is {
		t.drop(was)
		t.use(is)
	}
}

func first(copies []*ingress) *ingress {
	if len(copies) == 0 {
		return nil
	}
	return copies[0]
}

// setClass replaces the IngressClass of the store, nil for none.
func (s *Store) setClass(name string, c *class) {
	t := s.table
	before := t.classes[name]
	copies := slices.DeleteFunc(slices.Clone(before), s.hasClass)
	if c == nil && len(copies) == len(before) {
		return
	}
	if c != nil {
		copies = append(copies, *c)
		sort.Slice(copies, func(i, j int) bool {
			a, b := copies[i], copies[j]
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.store, b.store)) < 0
		})
	}
	if t.classes[name] = copies; len(copies) == 0 {
		delete(t.classes, name)
	}
	t.pending.classes = true
}

// setService replaces the Service of the store, nil for none.
func (s *Store) setService(name Name, b *backend) {
	t := s.table
	before := t.services[name]
	i := slices.IndexFunc(before, s.hasService)
	if b == nil && i < 0 || b != nil && i >= 0 && reflect.DeepEqual(before[i].ports, b.ports) {
		return
	}
	forms := slices.DeleteFunc(slices.Clone(before), s.hasService)
	if b != nil {
		forms = append(forms, *b)
		sort.Slice(forms, func(i, j int) bool { return forms[i].store < forms[j].store })
	}
	if t.services[name] = forms; len(forms) == 0 {
		delete(t.services, name)
	}
	for u := range t.index.services[name] {
		if u.host == "" {
			t.pending.faults[u.ingress] = true
		} else {
			t.pending.hosts[u.host] = true
		}
	}
}
