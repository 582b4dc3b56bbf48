package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/kube"
	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
)

// A status that differs is written, once: a replica that becomes the leader writes nothing if all statuses are right.
func TestIngressStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewIngressStatus(ingress.Name{Namespace: "gw", Name: "gw"}, slog.New(slog.DiscardHandler))
		var mu sync.Mutex // of what follows
		var writes []string
		var refuse error
		fail := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			refuse = err
		}
		written := func() []string {
			mu.Lock()
			defer mu.Unlock()
			last := writes
			writes = nil
			return last
		}
		events, watches := make(chan kube.Event), []*kube.Watch(nil)
		session := kube.NewSession(events, func(w *kube.Watch) func() {
			watches = append(watches, w)
			return func() {}
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.write(ctx, session, func(_ context.Context, n ingress.Name, version string, addresses []networkingv1.IngressLoadBalancerIngress) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				writes = append(writes, strings.TrimSpace(fmt.Sprint(n.Name, " ", addresses)))
				return version + "+", refuse
			})
		}()
		defer func() {
			cancel()
			<-done
		}()
		want := func(what string, want ...string) {
			t.Helper()
			<-time.After(5 * time.Second) // of the bubble's clock
			synctest.Wait()
			if got := slices.Sorted(slices.Values(written())); !slices.Equal(got, want) {
				t.Errorf("%s: it writes %q, want %q", what, got, want)
			}
		}
		at := func(ips ...string) (out []networkingv1.IngressLoadBalancerIngress) {
			for _, ip := range ips {
				out = append(out, networkingv1.IngressLoadBalancerIngress{IP: ip})
			}
			return out
		}
		of := func(ips ...string) *corev1.Service {
			return &corev1.Service{Spec: corev1.ServiceSpec{ExternalIPs: ips}}
		}
		synctest.Wait()
		services, pods, nodes := watches[0], watches[1], watches[2]
		name := func(n string) ingress.Name { return ingress.Name{Namespace: "shop", Name: n} }
		s.Show(map[ingress.Name]Shown{
			name("new"): {Ours: true}, name("good"): {true, true, at("192.0.2.1"), ""}, name("old"): {true, true, at("192.0.2.9"), ""},
			name("theirs"): {false, false, at("192.0.2.8"), ""}, name("left"): {false, true, at("192.0.2.1"), ""},
		})
		events <- kube.Event{Of: nodes, List: true}
		events <- kube.Event{Of: services, List: true, All: []any{of("192.0.2.1")}}
		want("before all is known")
		events <- kube.Event{Of: pods, Refused: errors.New("pods is forbidden")}
		want("at the start", "left []", "new [{192.0.2.1  []}]", "old [{192.0.2.1  []}]")
		events <- kube.Event{Of: services, Put: of("192.0.2.1")}
		want("nothing is new")
		s.Show(map[ingress.Name]Shown{name("good"): {true, true, at("192.0.2.1"), ""}, name("new"): {true, true, at("192.0.2.1"), ""}, name("left"): {false, false, nil, ""}})
		want("the API server tells what was written")

		fail(errors.New("conflict"))
		events <- kube.Event{Of: services, Put: of("192.0.2.2")}
		want("a write fails", "good [{192.0.2.2  []}]", "new [{192.0.2.2  []}]")
		fail(nil)
		<-time.After(longerPause)
		want("it is repeated", "good [{192.0.2.2  []}]", "new [{192.0.2.2  []}]")
		for i := range 9 { // a load balancer that changes its address often: the first is written, and after a pause the last
			events <- kube.Event{Of: services, Put: of(fmt.Sprint("192.0.2.", 101+i))}
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		nine := written()
		last := slices.Sorted(slices.Values(nine[max(0, len(nine)-2):]))
		if len(nine) > 4 || !slices.Equal(last, []string{"good [{192.0.2.109  []}]", "new [{192.0.2.109  []}]"}) {
			t.Errorf("nine changes cost the writes %q, want two rounds", nine)
		}
		events <- kube.Event{Of: services, Gone: of()}
		want("the Service is gone", "good []", "new []")
		s.Show(map[ingress.Name]Shown{name("new"): {Ours: true}})
		want("there are no addresses to write")
	})
}
