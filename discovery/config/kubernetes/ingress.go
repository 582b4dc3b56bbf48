package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Ingress sends the Gateways and VirtualServices that package ingress makes from the Ingresses of a cluster.
type Ingress struct {
	Connect    func() (*kube.Client, error) // called by each Run, which closes the client's connections at its end
	Cluster    string
	Namespaces []string // of the Ingresses that are read; empty for all
	Options    ingress.Options
	Secrets    Secrets
	// Show, if not nil, is called with the status of all Ingresses after each change.
	Show func(map[ingress.Name]Shown)
}

// Secrets reads the Secrets that Ingresses name.
type Secrets interface {
	Want([]ingress.Name)
	// Known returns the faults of the Secrets that were read, "" for none. Learned gets a value when the result of
	// Known has changed.
	Known() map[ingress.Name]string
	Learned() <-chan struct{}
}

// Run sends updates until ctx is done, or the API server refuses or cannot be reached. It keeps nothing between two
// runs.
func (s Ingress) Run(ctx context.Context, updates chan<- model.Update) error {
	return kube.Run(ctx, s.Connect, func(ctx context.Context, session *kube.Session) error {
		s.send(ctx, session, updates)
		return nil
	})
}

func ingressWatches(namespaces []string) (out []*kube.Watch) {
	api := networkingv1.SchemeGroupVersion
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

// send follows Ingresses until ctx is done, and sends changes. It syncs when the wanted Secrets were read: otherwise
// proxies would lose hosts of TLS at the start.
func (s Ingress) send(ctx context.Context, session *kube.Session, updates chan<- model.Update) {
	t := &ingresses{Ingress: s, table: ingress.New(s.Options), status: map[ingress.Name]Shown{}, faults: map[string]model.Group{}}
	for _, w := range ingressWatches(s.Namespaces) {
		session.Start(w)
	}
	kube.Outbox[model.Group, model.Update]{
		Apply: t.apply, Changes: t.changes, Ready: t.looked, Wake: s.Secrets.Learned(),
		Update: func(changed map[string]model.Group) model.Update { return model.Update{Groups: changed, Synced: true} },
	}.Send(ctx, session, updates)
}

// ingresses is the state of one Run.
type ingresses struct {
	Ingress
	table  *ingress.Table
	status map[ingress.Name]Shown // of all Ingresses

	refused bool                   // the API server does not allow reading classes
	faults  map[string]model.Group // the change of refused that is not sent
}

// looked reports whether all wanted Secrets were read.
func (t *ingresses) looked() bool {
	known := t.Secrets.Known()
	return !slices.ContainsFunc(t.table.Wanted(), func(n ingress.Name) bool {
		_, looked := known[n]
		return !looked
	})
}

func (t *ingresses) changes() map[string]model.Group {
	t.table.SetSecrets(t.Secrets.Known())
	out := t.table.Changes()
	maps.Copy(out, t.faults)
	clear(t.faults)
	t.Secrets.Want(t.table.Wanted())
	if t.Show != nil {
		all := maps.Clone(t.status)
		for _, name := range t.table.Ours() {
			is := all[name]
			is.Ours = true
			all[name] = is
		}
		t.Show(all)
	}
	return out
}

// apply applies one event.
func (t *ingresses) apply(e kube.Event) {
	if _, class := e.Of.Object.(*networkingv1.IngressClass); class && e.List && t.refused {
		t.refused, t.faults["IngressClass"] = false, model.Group{}
	}
	put := func(o any) {
		if m, ok := o.(metav1.Object); ok {
			t.table.Put(o, model.Origin{Record: &model.Record{
				Cluster: t.Cluster, UID: string(m.GetUID()), Generation: m.GetGeneration(), Relayed: true,
			}})
		}
		if i, ok := o.(*networkingv1.Ingress); ok {
			t.status[ingress.Name{Namespace: i.Namespace, Name: i.Name}] = Shown{
				Wrote: wrote(i), Addresses: i.Status.LoadBalancer.Ingress,
			}
		}
	}
	switch {
	case e.Refused != nil:
		t.refused = true
		t.faults["IngressClass"] = model.Group{Faults: []string{fmt.Sprintf("classes are known by the name %s alone: %v", t.Options.Class, e.Refused)}}
	case e.List:
		listed := map[ingress.Name]bool{}
		for _, o := range e.All {
			put(o)
			if m, ok := o.(metav1.Object); ok {
				listed[ingress.Name{Namespace: m.GetNamespace(), Name: m.GetName()}] = true
			}
		}
		t.table.Keep(e.Of.Object, func(n ingress.Name) bool { return listed[n] || e.Of.Namespace != "" && n.Namespace != e.Of.Namespace })
	case e.Put != nil:
		put(e.Put)
	default:
		t.table.Delete(e.Gone)
		if i, ok := e.Gone.(*networkingv1.Ingress); ok {
			delete(t.status, ingress.Name{Namespace: i.Namespace, Name: i.Name})
		}
	}
}
