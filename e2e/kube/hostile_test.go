//go:build kube

package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// eventually waits until a mesh has a property; fault says what it lacks, or is "".
func (p *pushed) eventually(t *testing.T, fault func(*model.Mesh) string) {
	t.Helper()
	check(t, lab.Eventually(time.Minute, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mesh == nil {
			return fmt.Errorf("nothing was pushed")
		}
		if text := fault(p.mesh); text != "" {
			return fmt.Errorf("the mesh has %s", text)
		}
		return nil
	}))
}

// A tenant with the rights on its namespace does what the API server lets it do. The service kept has its endpoint in every
// mesh, and of what the tenant does the end counts.
func TestRegistryBearsATenant(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	hand := c.hand()
	for _, namespace := range []string{"shop", "evil"} {
		hand.apply(namespaceOf(namespace))
	}
	kept := [2]string{"kept", "10.2.0.1"}
	hand.apply(serviceNamed("kept") + "\n---\n" + podAt("kept", "v1", kept[1]) + "\n---\n" + slicing("kept-1", "kept", kept))
	at := startDoor(t, c, c.config("admin"))
	p := follow(t, at, map[string]string{"kept" + shop: "10.2.0.1 v1"})
	p.await(t, "kept"+shop, "10.2.0.1 v1")
	const evil = ".evil.svc.cluster.local"
	own := func(document string) string {
		return strings.ReplaceAll(document, "namespace: shop", "namespace: evil")
	}
	headless := func(name string) string {
		return strings.Replace(own(serviceNamed(name)), "spec: {", "spec: {clusterIP: None, ", 1)
	}

	t.Run("it lists the addresses of others", func(t *testing.T) {
		hand := hand
		hand.t = t
		found, err := hand.resource(hand.parse(serviceNamed("kept"))).Get(t.Context(), "kept", metav1.GetOptions{})
		check(t, err)
		vip, _ := found.Object["spec"].(map[string]any)["clusterIP"].(string)
		hand.apply(headless("thief") + "\n---\n" + own(slicing("thief-1", "thief", [2]string{"x", vip}, [2]string{"kept", kept[1]}, [2]string{"z", "10.2.9.9"})))
		p.await(t, "thief"+evil, "10.2.9.9")
	})

	t.Run("a Service flaps", func(t *testing.T) {
		hand := hand
		hand.t = t
		p.since()
		const times = 200
		began := time.Now()
		for i := range times {
			hand.apply(strings.Replace(own(serviceNamed("flapping")), "port: 80", fmt.Sprintf("port: %d", 1000+i), 1))
		}
		took := time.Since(began)
		p.eventually(t, func(m *model.Mesh) string {
			s := m.Service("flapping" + evil)
			if s == nil || len(s.Ports) != 1 || s.Ports[0].Number != 1000+times-1 {
				return fmt.Sprintf("the service %+v", s)
			}
			return ""
		})
		pushes, keys := p.since()
		t.Logf("%d changes in %s are %d pushes of %q", times, took.Round(time.Millisecond), pushes, keys)
		if most := 2 + int(time.Since(began)/(100*time.Millisecond)); pushes > most {
			t.Errorf("%d pushes, want %d or less: one each 100ms", pushes, most)
		}
		if !slices.Equal(keys, []string{"Kubernetes/Service/evil/flapping"}) {
			t.Errorf("pushed are %q", keys)
		}
	})

	t.Run("a Service is deleted and made again at once", func(t *testing.T) {
		hand := hand
		hand.t = t
		hand.apply(own(serviceNamed("twin") + "\n---\n" + slicing("twin-1", "twin", [2]string{"x", "10.2.1.1"})))
		p.await(t, "twin"+evil, "10.2.1.1")
		for range 10 {
			hand.delete(own(serviceNamed("twin")))
			hand.apply(headless("twin"))
			hand.delete(headless("twin"))
			hand.apply(own(serviceNamed("twin")))
		}
		p.eventually(t, func(m *model.Mesh) string {
			s := m.Service("twin" + evil)
			if s == nil || s.Headless || len(s.Addresses) != 1 || len(s.Endpoints) != 1 {
				return fmt.Sprintf("the service %+v", s)
			}
			return ""
		})
	})

	t.Run("an address goes from an ended Pod to another", func(t *testing.T) {
		hand := hand
		hand.t = t
		hand.apply(own(serviceNamed("job")))
		for i := range 5 {
			old, next := fmt.Sprintf("job-%d", i), fmt.Sprintf("job-%d", i+1)
			version := fmt.Sprintf("v%d", i+1)
			hand.apply(strings.NewReplacer("podIP: 10.2.3.1, podIPs: [{ip: 10.2.3.1}], ", "").Replace(own(podAt(next, version, "10.2.3.1"))))
			hand.apply(own(strings.Replace(podAt(old, "v0", "10.2.3.1"), "Running", "Succeeded", 1)))
			hand.apply(own(podAt(next, version, "10.2.3.1")))
			hand.apply(strings.ReplaceAll(own(slicing("job-1", "job", [2]string{next, "10.2.3.1"})), "shop", "evil"))
			p.await(t, "job"+evil, "10.2.3.1 "+version)
		}
	})

	t.Run("a Service has very many slices", func(t *testing.T) {
		hand := hand
		hand.t = t
		const slices = 300
		hand.apply(own(serviceNamed("wide")))
		for i := range slices {
			hand.apply(own(slicing(fmt.Sprintf("wide-%d", i), "wide", [2]string{"x", fmt.Sprintf("10.3.%d.%d", i/250, i%250+1)})))
		}
		p.eventually(t, func(m *model.Mesh) string {
			if s := m.Service("wide" + evil); s == nil || len(s.Endpoints) != slices {
				return "not all endpoints"
			}
			return ""
		})
	})
}

// Very large objects, and definitions that go and come back in another version, hold up nothing else.
func TestConfigBearsATenant(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	hand := c.hand()
	definitions := istioDefinitions(t)
	hand.apply(definitions)
	d := c.replica()
	has := func(text string, want bool) {
		t.Helper()
		check(t, lab.Eventually(time.Minute, func() error {
			page, err := lab.Get("http://" + d.HTTP + "/debug/configz")
			if err == nil && strings.Contains(page, text) != want {
				err = fmt.Errorf("that the configuration has %s is %t", text, !want)
			}
			return err
		}))
	}

	// etcd takes 1.5 MiB; an applied object has most of itself a second time, in its managedFields.
	var routes []string
	for i := range 6000 {
		routes = append(routes, fmt.Sprintf(`{match: [{uri: {exact: "/%06d"}}], route: [{destination: {host: "nobody-%06d.test"}}]}`, i, i))
	}
	huge := hand.parse(fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: huge, namespace: default}\nspec: {hosts: [huge.test], http: [%s]}",
		strings.Join(routes, ", ")))
	check(t, hand.try(func(ctx context.Context) error {
		_, err := hand.resource(huge).Create(ctx, huge, metav1.CreateOptions{})
		return err
	}))
	hand.apply(rule("applied", "applied.test", "a.test"))
	has("nobody-005999.test", true)
	has("applied.test", true)

	// The definition goes with its objects, and comes back in another version.
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: virtualservices.networking.istio.io}"
	for _, version := range []string{"v1beta1", "v1"} {
		hand.delete(crd)
		has("applied.test", false)
		check(t, lab.Eventually(time.Minute, func() error {
			_, err := hand.resource(hand.parse(crd)).Get(t.Context(), "virtualservices.networking.istio.io", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("the definition is still there"), err)
		}))
		hand.apply(storedIn(t, hand, definitions, version))
		hand.apply(rule("applied", "applied.test", version+".test"))
		has(version+".test", true)
		has("nobody-005999.test", false)
	}
}

// storedIn is the definition of VirtualServices, whose objects are stored in a version.
func storedIn(t *testing.T, h hand, definitions, version string) string {
	t.Helper()
	for document := range strings.SplitSeq(definitions, "\n---\n") {
		if !strings.Contains(document, "\n  name: virtualservices.networking.istio.io") {
			continue
		}
		o := h.parse(document)
		spec, _ := o.Object["spec"].(map[string]any)
		versions, _ := spec["versions"].([]any)
		for _, v := range versions {
			v, _ := v.(map[string]any)
			v["storage"] = v["name"] == version
		}
		data, err := o.MarshalJSON()
		check(t, err)
		return string(data)
	}
	t.Fatal("no definition of VirtualServices")
	return ""
}
