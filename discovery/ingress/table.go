package ingress

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Controller is the name by which an IngressClass says that it is for this one.
const Controller = "pilotlight.io/ingress-controller"

// Credential is the name that the proxies ask for the Secret of an Ingress by. Nothing but an Ingress may name it: a Gateway with it
// would serve another namespace's certificate.
func Credential(secret Name) string { return CredentialScheme + secret.String() }

// CredentialScheme begins the names that Credential returns.
const CredentialScheme = "kubernetes-ingress://"

// Options are of all Ingresses.
type Options struct {
	Class       string            // the name of the class that needs no IngressClass: "pilotlight"
	Proxies     string            // namespace of the ingress proxies
	Selector    map[string]string // their labels
	HTTP, HTTPS uint32            // their ports; 80 and 443 if 0
	Domain      string            // of hosts of Services, NAME.NAMESPACE.svc.DOMAIN; "cluster.local" if empty
}

// Name names an object of a namespace.
type Name struct{ Namespace, Name string }

func (n Name) String() string { return n.Namespace + "/" + n.Name }

func (n Name) compare(o Name) int {
	return cmp.Or(cmp.Compare(n.Namespace, o.Namespace), cmp.Compare(n.Name, o.Name))
}

// Table holds the objects.
type Table struct {
	options Options

	ingresses map[Name]*ingress
	classes   map[string]*networkingv1.IngressClass
	services  map[Name][]corev1.ServicePort
	secrets   map[Name]string // what is wrong with those that were looked at, "" for nothing

	dirty  bool
	told   map[string]model.Group
	ours   []Name
	wanted []Name
}

// ingress is an Ingress, and where a person finds it.
type ingress struct {
	*networkingv1.Ingress
	at model.Origin
}

func (i *ingress) name() Name { return Name{i.Namespace, i.Name} }

// older orders them by age, then by name.
func (i *ingress) older(o *ingress) int {
	return cmp.Or(i.CreationTimestamp.Compare(o.CreationTimestamp.Time), i.name().compare(o.name()))
}

// New returns an empty Table.
func New(o Options) *Table {
	o.Domain, o.HTTP, o.HTTPS = cmp.Or(o.Domain, "cluster.local"), cmp.Or(o.HTTP, 80), cmp.Or(o.HTTPS, 443)
	return &Table{
		options: o, ingresses: map[Name]*ingress{}, classes: map[string]*networkingv1.IngressClass{}, services: map[Name][]corev1.ServicePort{},
		secrets: map[Name]string{}, told: map[string]model.Group{},
	}
}

// Put takes an object, in the place of an older form of it, and keeps it: it must not change any more. One of another type changes
// nothing.
func (t *Table) Put(o any, at model.Origin) {
	switch o := o.(type) {
	case *networkingv1.Ingress:
		name := Name{o.Namespace, o.Name}
		if was := t.ingresses[name]; was == nil || was.UID != o.UID || !reflect.DeepEqual(was.Spec, o.Spec) ||
			was.Annotations[classAnnotation] != o.Annotations[classAnnotation] || !reflect.DeepEqual(was.at, at) {
			t.dirty = true
		}
		t.ingresses[name] = &ingress{o, at}
	case *networkingv1.IngressClass:
		t.classes[o.Name], t.dirty = o, true
	case *corev1.Service:
		name := Name{o.Namespace, o.Name}
		if was, had := t.services[name]; !had || !reflect.DeepEqual(was, o.Spec.Ports) {
			t.services[name], t.dirty = o.Spec.Ports, true
		}
	}
}

// Delete takes an object away, by the type of o, its namespace and its name.
func (t *Table) Delete(o any) {
	t.dirty = true
	switch o := o.(type) {
	case *networkingv1.Ingress:
		delete(t.ingresses, Name{o.Namespace, o.Name})
	case *networkingv1.IngressClass:
		delete(t.classes, o.Name)
	case *corev1.Service:
		delete(t.services, Name{o.Namespace, o.Name})
	}
}

// Keep deletes the objects of the type of o but those that keep holds for: those that a new list does not have.
func (t *Table) Keep(o any, keep func(Name) bool) {
	t.dirty = true
	switch o.(type) {
	case *networkingv1.Ingress:
		maps.DeleteFunc(t.ingresses, func(n Name, _ *ingress) bool { return !keep(n) })
	case *networkingv1.IngressClass:
		maps.DeleteFunc(t.classes, func(n string, _ *networkingv1.IngressClass) bool { return !keep(Name{"", n}) })
	case *corev1.Service:
		maps.DeleteFunc(t.services, func(n Name, _ []corev1.ServicePort) bool { return !keep(n) })
	}
}

// SetSecrets says what is known of the Secrets that are wanted: what is wrong with each, "" for one that can be served.
func (t *Table) SetSecrets(secrets map[Name]string) {
	if !maps.Equal(t.secrets, secrets) {
		t.secrets, t.dirty = maps.Clone(secrets), true
	}
}

// Changes returns the groups that are others than at the last call, by key. An empty group is gone.
func (t *Table) Changes() map[string]model.Group {
	out := map[string]model.Group{}
	if !t.dirty {
		return out
	}
	t.dirty = false
	now := t.translate()
	for key, group := range now {
		if was, had := t.told[key]; !had || !group.Same(was) || !slices.Equal(group.Faults, was.Faults) {
			out[key] = group
		}
	}
	for key := range t.told {
		if _, still := now[key]; !still {
			out[key] = model.Group{}
		}
	}
	t.told = now
	return out
}

// Ours are the Ingresses of our class at the last call of Changes, by namespace and name.
func (t *Table) Ours() []Name { return t.ours }

// Wanted are the Secrets that they name for hosts that are theirs, at the last call of Changes.
func (t *Table) Wanted() []Name { return t.wanted }
