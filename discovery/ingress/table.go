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

// Controller is the name of this controller in an IngressClass.
const Controller = "pilotlight.io/ingress-controller"

// Credential returns the name by which proxies subscribe to the Secret of an Ingress. A Gateway that names it is
// refused: it could serve the certificate of another namespace.
func Credential(secret Name) string { return CredentialScheme + secret.String() }

// CredentialScheme is the prefix of the names that Credential returns.
const CredentialScheme = "kubernetes-ingress://"

// Options are the settings for all Ingresses.
type Options struct {
	Class       string            // the name of the class that needs no IngressClass: "pilotlight"
	Proxies     string            // namespace of the ingress proxies
	Selector    map[string]string // their labels
	HTTP, HTTPS uint32            // their ports; 80 and 443 if 0
	Domain      model.Domain      // of the hosts of Services
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
	secrets   map[Name]string // the faults of the Secrets that were read, "" for a valid one

	dirty  bool
	sent   map[string]model.Group
	ours   []Name
	wanted []Name
}

// ingress is an Ingress with its origin.
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
	o.HTTP, o.HTTPS = cmp.Or(o.HTTP, 80), cmp.Or(o.HTTPS, 443)
	return &Table{
		options: o, ingresses: map[Name]*ingress{}, classes: map[string]*networkingv1.IngressClass{}, services: map[Name][]corev1.ServicePort{},
		secrets: map[Name]string{}, sent: map[string]model.Group{},
	}
}

// Put stores an object, in the place of an older form of it. The caller must not change the object afterwards. Objects
// of other types are ignored.
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

// Delete removes an object, by the type, the namespace and the name of o.
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

// Keep deletes the objects of the type of o for which keep returns false, such as those that are not in a new list.
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

// SetSecrets sets the faults of the wanted Secrets that were read, "" for one that can be served.
func (t *Table) SetSecrets(secrets map[Name]string) {
	if !maps.Equal(t.secrets, secrets) {
		t.secrets, t.dirty = maps.Clone(secrets), true
	}
}

// Changes returns the groups that differ from those of the last call, by key. An empty group stands for one that was
// removed.
func (t *Table) Changes() map[string]model.Group {
	out := map[string]model.Group{}
	if !t.dirty {
		return out
	}
	t.dirty = false
	now := t.translate()
	for key, group := range now {
		if was, had := t.sent[key]; !had || !group.Same(was) || !slices.Equal(group.Faults, was.Faults) {
			out[key] = group
		}
	}
	for key := range t.sent {
		if _, still := now[key]; !still {
			out[key] = model.Group{}
		}
	}
	t.sent = now
	return out
}

// Ours returns the Ingresses that were served at the last call of Changes, by namespace and name.
func (t *Table) Ours() []Name { return t.ours }

// Wanted returns the Secrets that these Ingresses name for hosts that belong to them, at the last call of Changes.
func (t *Table) Wanted() []Name { return t.wanted }
