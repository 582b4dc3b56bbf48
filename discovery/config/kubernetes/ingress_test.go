package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/ingress/source"
	"github.com/pilotlight/pilotlight/discovery/kube"
	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// secretsOf is a Secrets whose results a test sets.
type secretsOf struct {
	mu     sync.Mutex
	wanted []ingress.Name
	known  map[ingress.Name]string
}

func (s *secretsOf) Want(names []ingress.Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = names
}

func (s *secretsOf) Known() map[ingress.Name]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}

// watched is an Ingress that gets events, with the source of Ingresses, and the groups that both send.
type watched struct {
	t       *testing.T
	objects *Ingress
	into    *source.Source
	secrets *secretsOf
	shown   string
	watches []*kube.Watch
	events  chan kube.Event
	faults  chan model.Update // of the Ingress
	updates chan model.Update
	stop    func()
}

func watch(t *testing.T) *watched {
	w := &watched{t: t, secrets: &secretsOf{known: map[ingress.Name]string{}}, updates: make(chan model.Update)}
	w.into = source.New(ingress.Options{Class: "pilotlight", Proxies: "gw", Selector: map[string]string{"a": "b"}}, w.secrets)
	feed := w.into.Feed("kubernetesIngress")
	w.objects = &Ingress{Class: "pilotlight", Into: feed, Show: func(all map[ingress.Name]Shown) { w.shown = fmt.Sprint(all) }}
	feed.Served(w.objects.Served)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.into.Run(ctx, w.updates)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	w.run()
	t.Cleanup(func() { w.stop() })
	return w
}

// run starts the Ingress, as the server does after an error.
func (w *watched) run() {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	w.watches, w.events, w.faults = nil, make(chan kube.Event), make(chan model.Update)
	session := kube.NewSession(w.events, func(started *kube.Watch) func() {
		w.watches = append(w.watches, started)
		return func() {}
	})
	go func() {
		defer close(done)
		w.objects.send(ctx, session, w.faults)
	}()
	synctest.Wait()
	w.stop = func() {
		cancel()
		<-done
	}
}

// The places of the watches.
const (
	ofClasses = iota
	ofIngresses
	ofServices
)

func (w *watched) send(at int, e kube.Event) {
	e.Of = w.watches[at]
	w.events <- e
	synctest.Wait()
}

// want checks what both send next: "-" is before the key of a group that is removed, "!" before one with faults only.
func (w *watched) want(keys ...string) {
	w.t.Helper()
	synctest.Wait()
	var got []string
	for _, from := range []chan model.Update{w.faults, w.updates} {
		select {
		case u := <-from:
			for _, key := range slices.Sorted(maps.Keys(u.Groups)) {
				if u.Groups[key].Empty() {
					key = "-" + key
				} else if u.Groups[key].Malformed() {
					key = "!" + key
				}
				got = append(got, key)
			}
		default:
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, keys) {
		w.t.Errorf("it sends %q, want %q", got, keys)
	}
}

func ingressWith(name, host, secret string) *networkingv1.Ingress {
	class, prefix := "pilotlight", networkingv1.PathTypePrefix
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: networkingv1.IngressSpec{
		IngressClassName: &class,
		Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: "a", Port: networkingv1.ServiceBackendPort{Number: 80},
			}}}},
		}}}},
	}}
	if secret != "" {
		i.Spec.TLS = []networkingv1.IngressTLS{{SecretName: secret}}
	}
	return i
}

func serviceA() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
}

// Ingresses are passed on when all kinds are listed, and status is shown after that.
func TestIngressesOfACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.send(ofClasses, kube.Event{Refused: errors.New("ingressclasses is forbidden")})
		w.send(ofServices, kube.Event{List: true, All: []any{serviceA()}})
		w.want()
		w.send(ofIngresses, kube.Event{List: true, All: []any{ingressWith("web", "foo.com", "cert")}})
		w.want("!IngressClass", "Gateway/shop/ingress~http~", "VirtualService/shop/ingress~foo.com")
		if fmt.Sprint(w.secrets.wanted) != "[shop/cert]" || !strings.Contains(w.shown, "shop/web:{true false [] }") {
			t.Errorf("it wants %v, and shows %s", w.secrets.wanted, w.shown)
		}
		w.send(ofServices, kube.Event{Gone: serviceA()})
		w.want("!Ingress/shop/web", "VirtualService/shop/ingress~foo.com")
		w.send(ofClasses, kube.Event{List: true})
		w.want("-IngressClass")
		w.send(ofIngresses, kube.Event{List: true})
		w.want("-Gateway/shop/ingress~http~", "-Ingress/shop/web", "-VirtualService/shop/ingress~foo.com")
		if len(w.secrets.wanted) > 0 || w.shown != "map[]" {
			t.Errorf("it still wants %v, and shows %s", w.secrets.wanted, w.shown)
		}
	})
}

// If the API server no longer allows to read IngressClasses, those that were read before are used as long as the process
// lives, also after a new start of the source; this is said.
func TestRightToClassesTakenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		mine := "mine"
		web := ingressWith("web", "foo.com", "")
		web.Spec.IngressClassName = &mine
		class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: mine}, Spec: networkingv1.IngressClassSpec{Controller: ingress.Controller}}
		w.send(ofClasses, kube.Event{List: true, All: []any{class}})
		w.send(ofServices, kube.Event{List: true, All: []any{serviceA()}})
		w.send(ofIngresses, kube.Event{List: true, All: []any{web}})
		w.want("-IngressClass", "Gateway/shop/ingress~http~", "VirtualService/shop/ingress~foo.com")

		w.stop()
		w.run()
		w.send(ofClasses, kube.Event{Refused: errors.New("ingressclasses is forbidden")})
		w.send(ofServices, kube.Event{List: true, All: []any{serviceA()}})
		w.send(ofIngresses, kube.Event{List: true, All: []any{web, ingressWith("more", "bar.com", "")}})
		u := <-w.faults
		if got := fmt.Sprint(u.Groups["IngressClass"].Faults); !u.Synced || !strings.Contains(got, "classes cannot be read, those that were read before are used until this process ends") {
			t.Errorf("it says %q", got)
		}
		w.want("VirtualService/shop/ingress~bar.com")
		if !strings.Contains(w.shown, "shop/web:{true ") {
			t.Errorf("it shows %s", w.shown)
		}
		w.send(ofClasses, kube.Event{List: true})
		w.want("-IngressClass", "-VirtualService/shop/ingress~foo.com")
	})
}

// While a new start of the source has not listed all, the objects of the one before stay.
func TestIngressesStayAtARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		w.send(ofClasses, kube.Event{List: true})
		w.send(ofServices, kube.Event{List: true, All: []any{serviceA()}})
		w.send(ofIngresses, kube.Event{List: true, All: []any{ingressWith("web", "foo.com", "")}})
		w.want("-IngressClass", "Gateway/shop/ingress~http~", "VirtualService/shop/ingress~foo.com")
		w.stop()
		w.run()
		w.send(ofServices, kube.Event{List: true})
		w.send(ofIngresses, kube.Event{List: true})
		w.want()
		w.send(ofClasses, kube.Event{List: true})
		w.want("-Gateway/shop/ingress~http~", "-IngressClass", "-VirtualService/shop/ingress~foo.com")
	})
}
