package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
	"github.com/pilotlight/pilotlight/discovery/model"
)

type secrets struct {
	mu     sync.Mutex
	wanted []ingress.Name
	known  map[ingress.Name]string
}

func (s *secrets) Want(all []ingress.Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = all
}

func (s *secrets) Known() map[ingress.Name]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}

func (s *secrets) learn(name ingress.Name, fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[name] = fault
}

func put(name, host, secret string) func(*ingress.Store) {
	class, prefix := "pilotlight", networkingv1.PathTypePrefix
	return func(to *ingress.Store) {
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
		to.Put(i, model.Origin{})
		to.Put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, model.Origin{})
	}
}

// A store that is away does not keep those of another one; all sync when it is there, and the Secrets were read. A store that is
// removed takes its objects with it.
func TestStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &secrets{known: map[ingress.Name]string{}}
		s := New(ingress.Options{Class: "pilotlight", Proxies: "gw"}, keys)
		config, cluster := s.Feed("config"), s.Feed("kubernetesIngress")
		var served string
		config.Served(func(ours map[ingress.Name]bool) { served = fmt.Sprint(ours) })
		updates := make(chan model.Update)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = s.Run(ctx, updates)
		}()
		defer func() {
			cancel()
			<-done
		}()
		want := func(synced bool, keys ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			select {
			case u := <-updates:
				for key, group := range u.Groups {
					if group.Empty() {
						key = "-" + key
					}
					got = append(got, key)
				}
				if u.Synced != synced {
					t.Errorf("synced is %v", u.Synced)
				}
			default:
			}
			if slices.Sort(got); !slices.Equal(got, keys) {
				t.Errorf("it sends %q, want %q", got, keys)
			}
		}
		config.Apply(put("web", "foo.com", "cert"))
		config.Synced()
		want(false, "Gateway/shop/ingress~http~", "VirtualService/shop/ingress~foo.com")
		if served != "map[shop/web:true]" {
			t.Errorf("served are %s", served)
		}
		cluster.Apply(put("more", "bar.com", ""))
		cluster.Synced()
		want(false, "VirtualService/shop/ingress~bar.com") // the Secret was not read
		keys.learn(ingress.Name{Namespace: "shop", Name: "cert"}, "")
		s.Wake()
		want(true, "Gateway/shop/ingress~foo.com", "VirtualService/shop/ingress~foo.com")
		config.Apply(put("late", "late.com", "late")) // after that nothing waits for a Secret
		want(true, "VirtualService/shop/ingress~late.com")
		s.Remove("config")
		want(true, "-Gateway/shop/ingress~foo.com", "-VirtualService/shop/ingress~foo.com", "-VirtualService/shop/ingress~late.com")
		if len(keys.wanted) > 0 {
			t.Errorf("it still wants %v", keys.wanted)
		}
	})
}

// What the source of a store still reads when the store is removed does not come back.
func TestAStoreThatIsRemovedWhileItIsRead(t *testing.T) {
	s := New(ingress.Options{Class: "pilotlight", Proxies: "gw"}, &secrets{known: map[ingress.Name]string{}})
	old := s.Feed("fs:///a")
	old.Apply(put("web", "foo.com", ""))
	s.Remove("fs:///a")
	old.Apply(put("web", "foo.com", ""))
	s.changes()
	if groups := s.table.All(); len(groups) != 0 {
		t.Errorf("it has %v", groups)
	}
	s.Feed("fs:///a").Apply(put("web", "foo.com", ""))
	s.changes()
	if groups := s.table.All(); len(groups) == 0 {
		t.Error("one that is added again has nothing")
	}
}
