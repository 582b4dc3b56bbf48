package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/kube"
	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
)

// Shown is the status of an Ingress, as the API server has it.
type Shown struct {
	Ours      bool // it is of the class that this server serves
	Wrote     bool // this program wrote its addresses
	Addresses []networkingv1.IngressLoadBalancerIngress
	Version   string // the object's resourceVersion
}

// IngressStatus writes the addresses at which Ingresses are served into their status. Its Run is a kube.Lead.
type IngressStatus struct {
	Service ingress.Name // the Service of the ingress proxies
	Log     *slog.Logger

	mu      sync.Mutex
	shown   map[ingress.Name]Shown // nil while no Ingress is known
	changed chan struct{}
}

// statusManager is the field manager of the addresses that this program writes.
const statusManager = "pilotlight-ingress-status"

// Between two rounds of writing there is a pause, a longer one after a round that failed.
const (
	pause       = time.Second
	longerPause = 10 * time.Second
)

// NewIngressStatus returns an IngressStatus without Ingresses.
func NewIngressStatus(service ingress.Name, log *slog.Logger) *IngressStatus {
	return &IngressStatus{Service: service, Log: log, changed: make(chan struct{}, 1)}
}

// Show sets the present status of all Ingresses. Any goroutine may call it.
func (s *IngressStatus) Show(all map[ingress.Name]Shown) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown = all
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *IngressStatus) now() map[ingress.Name]Shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown
}

// wrote reports whether this program wrote the status of an Ingress.
func wrote(i *networkingv1.Ingress) bool {
	return slices.ContainsFunc(i.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == statusManager && f.Subresource == "status" })
}

// Run follows the Service, its Pods and their Nodes, and writes statuses that differ, until ctx is done or the API
// server cannot be reached.
func (s *IngressStatus) Run(ctx context.Context, connect func() (*kube.Client, error)) error {
	return kube.Run(ctx, connect, func(ctx context.Context, session *kube.Session) error {
		s.write(ctx, session, func(ctx context.Context, name ingress.Name, version string, addresses []networkingv1.IngressLoadBalancerIngress) (string, error) {
			var status any
			if len(addresses) > 0 {
				status = networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: addresses}}
			}
			return session.Client.ApplyStatus(ctx, networkingv1.Version().WithResource("ingresses"), "Ingress", name.Namespace, name.Name, version, statusManager, status)
		})
		return nil
	})
}

// watches returns the watches of the Service, its Pods and their Nodes.
func (s *IngressStatus) watches() []*kube.Watch {
	core := corev1.SchemeGroupVersion
	return []*kube.Watch{
		{
			Resource: core.WithResource("services"), Object: &corev1.Service{}, Namespace: s.Service.Namespace, Fields: "metadata.name=" + s.Service.Name,
			Optional: true,
		},
		{Resource: core.WithResource("pods"), Object: &corev1.Pod{}, Namespace: s.Service.Namespace, Optional: true},
		{Resource: core.WithResource("nodes"), Object: &corev1.Node{}, Optional: true, Strip: func(o any) {
			if n, ok := o.(*corev1.Node); ok {
				n.ManagedFields, n.Annotations, n.Spec = nil, nil, corev1.NodeSpec{}
				n.Status = corev1.NodeStatus{Addresses: n.Status.Addresses}
			}
		}},
	}
}

// ingressService holds the objects from which the addresses are made.
type ingressService struct {
	service *corev1.Service
	pods    map[string]*corev1.Pod
	nodes   map[string]*corev1.Node
}

func (f *ingressService) apply(e kube.Event) {
	if e.List {
		switch e.Of.Object.(type) {
		case *corev1.Service:
			f.service = nil
		case *corev1.Pod:
			clear(f.pods)
		case *corev1.Node:
			clear(f.nodes)
		}
	}
	for _, o := range append(e.All, e.Put) {
		switch o := o.(type) {
		case *corev1.Service:
			f.service = o
		case *corev1.Pod:
			f.pods[o.Name] = o
		case *corev1.Node:
			f.nodes[o.Name] = o
		}
	}
	switch o := e.Gone.(type) {
	case *corev1.Service:
		f.service = nil
	case *corev1.Pod:
		delete(f.pods, o.Name)
	case *corev1.Node:
		delete(f.nodes, o.Name)
	}
}

func (f *ingressService) addresses() []networkingv1.IngressLoadBalancerIngress {
	return ingress.Addresses(f.service, slices.Collect(maps.Values(f.pods)), f.nodes)
}

// apply writes addresses into the status of an Ingress that has a resourceVersion, and returns the new one.
type apply func(ctx context.Context, name ingress.Name, version string, addresses []networkingv1.IngressLoadBalancerIngress) (string, error)

// write writes statuses that differ, once everything is listed. Between two rounds there is a pause of a second: all
// changes during the pause need one write.
func (s *IngressStatus) write(ctx context.Context, session *kube.Session, apply apply) {
	f := &ingressService{pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}}
	for _, w := range s.watches() {
		session.Start(w)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	due, waiting := false, true
	for {
		if due && !waiting {
			if due, waiting = s.round(ctx, f.addresses(), apply), true; due {
				timer.Reset(longerPause)
			} else {
				timer.Reset(pause)
			}
		}
		select {
		case e := <-session.Events():
			session.Apply(e, func(e kube.Event) {
				f.apply(e)
				if e.Refused != nil {
					s.Log.Warn("addresses of Ingresses are known in part", "err", e.Refused)
				}
			})
			due = session.Listed()
		case <-s.changed:
			due = session.Listed()
		case <-timer.C:
			waiting = false
		case <-ctx.Done():
			return
		}
	}
}

// round writes statuses that differ, and reports whether some are left to write.
func (s *IngressStatus) round(ctx context.Context, addresses []networkingv1.IngressLoadBalancerIngress, apply apply) (again bool) {
	for name, is := range s.now() {
		want := addresses
		switch {
		case !is.Ours && !is.Wrote:
			continue // another program writes it
		case !is.Ours:
			want = nil
		case len(want) == 0 && !is.Wrote:
			continue // this program wrote nothing that must be removed
		case same(is.Addresses, want):
			continue
		}
		switch version, err := apply(ctx, name, is.Version, want); {
		case err == nil:
			s.Log.Info("addresses of an Ingress written", "ingress", name.String(), "addresses", len(want))
			s.wrote(name, is, version, want)
		case ctx.Err() != nil || errors.Is(err, kube.ErrNotLeading):
			return false
		case apierrors.IsConflict(err): // the watch will bring its present form
			again = true
		case !apierrors.IsNotFound(err):
			s.Log.Warn("addresses of an Ingress not written", "err", err)
			again = true
		}
	}
	return again
}

// wrote records the new status until the watch reports it, so that it is not written again.
func (s *IngressStatus) wrote(name ingress.Name, was Shown, version string, addresses []networkingv1.IngressLoadBalancerIngress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is, known := s.shown[name]; known && is.Ours == was.Ours && is.Version == was.Version {
		s.shown[name] = Shown{Ours: is.Ours, Wrote: len(addresses) > 0, Addresses: addresses, Version: version}
	}
}

// same compares addresses; ports that a load balancer reports are ignored.
func same(a, b []networkingv1.IngressLoadBalancerIngress) bool {
	return slices.EqualFunc(a, b, func(a, b networkingv1.IngressLoadBalancerIngress) bool {
		return a.IP == b.IP && a.Hostname == b.Hostname
	})
}
