package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// secretsOf is a Secrets whose results a test sets.
type secretsOf struct {
	wanted  []ingress.Name
	known   map[ingress.Name]string
	learned chan struct{}
}

func (s *secretsOf) Want(names []ingress.Name)      { s.wanted = names }
func (s *secretsOf) Known() map[ingress.Name]string { return maps.Clone(s.known) }
func (s *secretsOf) Learned() <-chan struct{}       { return s.learned }

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

// Ingresses sync when the Secrets that they name were read: proxies that are connected to a server that restarts keep
// their hosts of TLS.
func TestIngressesWaitForSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secrets := &secretsOf{known: map[ingress.Name]string{}, learned: make(chan struct{}, 1)}
		shown := ""
		source := Ingress{
			Options: ingress.Options{Class: "pilotlight", Proxies: "gw", Selector: map[string]string{"a": "b"}}, Secrets: secrets,
			Show: func(all map[ingress.Name]Shown) { shown = fmt.Sprint(all) },
		}
		var watches []*kube.Watch
		events, updates := make(chan kube.Event), make(chan model.Update)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			source.send(ctx, kube.NewSession(events, func(w *kube.Watch) func() {
				watches = append(watches, w)
				return func() {}
			}), updates)
		}()
		synctest.Wait()
		defer func() {
			cancel()
			<-done
		}()
		send := func(at int, e kube.Event) {
			e.Of = watches[at]
			events <- e
			synctest.Wait()
		}
		want := func(keys ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			select {
			case u := <-updates:
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
			if !slices.Equal(got, keys) {
				t.Errorf("it tells %q, want %q", got, keys)
			}
		}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		send(0, kube.Event{Refused: errors.New("ingressclasses is forbidden")})
		send(2, kube.Event{List: true, All: []any{service}})
		want()
		send(1, kube.Event{List: true, All: []any{ingressWith("web", "foo.com", "cert")}})
		want() // the Secret was not read
		if fmt.Sprint(secrets.wanted) != "[shop/cert]" || !strings.Contains(shown, "shop/web:{true false []}") {
			t.Errorf("it wants %v, and shows %s", secrets.wanted, shown)
		}
		secrets.known[ingress.Name{Namespace: "shop", Name: "cert"}] = ""
		secrets.learned <- struct{}{}
		want("Gateway/shop/ingress~foo.com", "Gateway/shop/ingress~http", "!IngressClass", "VirtualService/shop/ingress~foo.com")

		send(1, kube.Event{Put: ingressWith("more", "bar.com", "late")}) // after the sync nothing waits for its Secret
		want("VirtualService/shop/ingress~bar.com")
		send(2, kube.Event{Gone: service})
		want("!Ingress/shop/more", "!Ingress/shop/web", "VirtualService/shop/ingress~bar.com", "VirtualService/shop/ingress~foo.com")
		send(0, kube.Event{List: true})
		want("-IngressClass")
		send(1, kube.Event{List: true})
		want("-Gateway/shop/ingress~foo.com", "-Gateway/shop/ingress~http", "-Ingress/shop/more", "-Ingress/shop/web",
			"-VirtualService/shop/ingress~bar.com", "-VirtualService/shop/ingress~foo.com")
		if len(secrets.wanted) > 0 {
			t.Errorf("it still wants %v", secrets.wanted)
		}
	})
}
