//go:build kube

package kube

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

func gatewayService(ips string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: ingressgateway, namespace: mesh}
spec: {externalIPs: [%s], ports: [{name: http, port: 80}]}`, ips)
}

// One of two replicas writes the addresses of Ingresses. When it is killed the other one takes over, and writes nothing that stands
// there already. An Ingress of another class loses what we wrote.
func TestIngressAddresses(t *testing.T) { lab.InNetworkNamespace(t, ingressAddresses) }

func ingressAddresses(t *testing.T) {
	w := emptyWorld(t)
	w.hand.apply(ingressRights)
	w.hand.apply(namespaceOf("mesh") + "\n---\n" + leases("mesh"))
	w.hand.apply(gatewayService("192.0.2.1"))
	const spec = "  defaultBackend: {service: {name: app, port: {number: 80}}}"
	web := ingressOf("default", "web", "pilotlight", spec)
	w.hand.apply(web)
	flags := []string{"--ingressClass", "pilotlight", "--ingressService", "mesh/ingressgateway", "--leaseNamespace", "mesh"}
	w.serve(flags...)
	first := w.discovery
	now := func(name string) *unstructured.Unstructured {
		t.Helper()
		o := w.hand.parse(ingressOf("default", name, "pilotlight", spec))
		var found *unstructured.Unstructured
		check(t, w.hand.try(func(ctx context.Context) (err error) {
			found, err = w.hand.resource(o).Get(ctx, name, metav1.GetOptions{})
			return err
		}))
		return found
	}
	addresses := func(name, want string) {
		t.Helper()
		check(t, lab.Eventually(time.Minute, func() error {
			list, _, _ := unstructured.NestedSlice(now(name).Object, "status", "loadBalancer", "ingress")
			if got := fmt.Sprint(list); got != want {
				return fmt.Errorf("the addresses of %s are %s, want %s", name, got, want)
			}
			return nil
		}))
	}
	wrote := func(who string, d *lab.Discovery, want int) { // the line comes after the write, which the test sees first
		t.Helper()
		check(t, lab.Eventually(time.Minute, func() error {
			n := strings.Count(d.Log(), "addresses of an Ingress written")
			if n > want {
				t.Fatalf("%s wrote %d times, want %d", who, n, want)
			}
			if n < want {
				return fmt.Errorf("%s wrote %d times, want %d", who, n, want)
			}
			return nil
		}))
	}
	addresses("web", "[map[ip:192.0.2.1]]")
	wrote("the first replica", first, 1)

	second := w.replica(lab.New(t.TempDir()), flags...)
	before := now("web").GetResourceVersion()
	first.Signal(syscall.SIGKILL)
	killed := time.Now()
	check(t, lab.Eventually(time.Minute, func() error {
		page, err := lab.Get("http://" + second.Monitoring + "/metrics")
		if err == nil && !strings.Contains(page, `pilotlight_leading{lease="mesh/pilotlight-discovery"} 1`) {
			err = fmt.Errorf("the second replica does not lead")
		}
		return err
	}))
	t.Logf("the second replica leads after %s", time.Since(killed).Round(time.Second))
	w.hand.apply(ingressOf("default", "more", "pilotlight", spec))
	addresses("more", "[map[ip:192.0.2.1]]")
	wrote("the second replica", second, 1)
	if after := now("web").GetResourceVersion(); after != before {
		t.Errorf("the object went from %s to %s", before, after)
	}

	w.hand.apply(gatewayService("192.0.2.2, 192.0.2.1"))
	addresses("web", "[map[ip:192.0.2.1] map[ip:192.0.2.2]]")
	addresses("more", "[map[ip:192.0.2.1] map[ip:192.0.2.2]]")
	w.hand.apply(strings.Replace(web, "pilotlight", "nginx", 1))
	addresses("web", "[]")
	addresses("more", "[map[ip:192.0.2.1] map[ip:192.0.2.2]]")
	wrote("the second replica", second, 4)
}
