package discovery

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// cluster is a cluster of Kubernetes with Pods that are replaced, the catalog of its objects, and the state of a server.
type cluster struct {
	catalog  *catalog.Catalog
	state    *state
	perSlice int
	slices   int            // of each service
	versions map[[2]int]int // of the first Pod of each slice: how often it was replaced
}

// newCluster makes services, each with slices of Pods; every headless-th is headless, none for 0.
func newCluster(services, slices, perSlice, headless int) *cluster {
	c := &cluster{catalog: catalog.New(catalog.Options{Cluster: "c"}), state: stateOf("k"), perSlice: perSlice, slices: slices, versions: map[[2]int]int{}}
	c.state.patience.Linger = Linger // what serve has by default
	for s := range services {
		ip := fmt.Sprintf("10.%d.%d.%d", 100+s>>16, s>>8&255, s&255)
		if headless > 0 && s%headless == 0 {
			ip = corev1.ClusterIPNone
		}
		c.catalog.Put(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", s), Namespace: space(s), UID: "s"},
			Spec:       corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}, model.Origin{})
		for i := range slices {
			for at := range perSlice {
				c.pod(s, i, at, 0)
			}
			c.slice(s, i)
		}
	}
	c.send()
	return c
}

func space(service int) string { return fmt.Sprint("n", service%100) }

func (c *cluster) names(s, i, at, version int) (name, ip string) {
	n := (s*c.slices+i)*c.perSlice + at
	return fmt.Sprintf("s%d-%d-%d-%d", s, i, at, version), fmt.Sprintf("%d.%d.%d.%d", 20+version%64, n>>16, n>>8&255, n&255)
}

func (c *cluster) pod(s, i, at, version int) {
	name, ip := c.names(s, i, at, version)
	c.catalog.Put(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: space(s), Labels: map[string]string{"app": fmt.Sprint("s", s)}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: ip}}},
	}, model.Origin{})
}

// slice puts a slice with its Pods.
func (c *cluster) slice(s, i int) {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: fmt.Sprintf("s%d-%d", s, i), Namespace: space(s), Labels: map[string]string{discoveryv1.LabelServiceName: fmt.Sprint("s", s)}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for at := range c.perSlice {
		version := 0
		if at == 0 {
			version = c.versions[[2]int{s, i}]
		}
		name, ip := c.names(s, i, at, version)
		out.Endpoints = append(out.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: space(s), Name: name}})
	}
	c.catalog.Put(out, model.Origin{})
}

// send makes the mesh of what has changed.
func (c *cluster) send() *model.Mesh {
	c.state.apply(sourceEvent{feed: c.state.sources["k"].feed, update: model.Update{Groups: c.catalog.Changes(), Synced: true}}, epoch)
	mesh, _ := c.state.flush(epoch)
	return mesh
}

// replace replaces the first Pod of a slice by another of another name and address.
func (c *cluster) replace(s, i int) *model.Mesh {
	version := c.versions[[2]int{s, i}]
	last, _ := c.names(s, i, 0, version)
	c.versions[[2]int{s, i}]++
	c.catalog.Delete(catalog.Key{Kind: catalog.Pod, Namespace: space(s), Name: last})
	c.pod(s, i, 0, version+1)
	c.slice(s, i)
	return c.send()
}

// BenchmarkReplacedPod measures the cost of a replaced Pod, from its objects to the mesh.
func BenchmarkReplacedPod(b *testing.B) {
	for _, one := range []struct {
		name                                 string
		services, slices, perSlice, headless int
		every                                int // the service of which a Pod is replaced
	}{
		{"1,000 services, 10,000 Pods", 1000, 1, 10, 0, 7},
		{"5,000 services, 50,000 Pods", 5000, 1, 10, 0, 7},
		{"1,000 services, 10,000 Pods, a headless service", 1000, 1, 10, 10, 10},
		{"5,000 services, 50,000 Pods, a headless service", 5000, 1, 10, 10, 10},
		{"one service of 1,000 slices", 1, 1000, 10, 0, 1},
		{"one service of 10,000 slices", 1, 10_000, 10, 0, 1},
	} {
		b.Run(one.name, func(b *testing.B) {
			c := newCluster(one.services, one.slices, one.perSlice, one.headless)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.replace(i*one.every%one.services, i%one.slices)
			}
		})
	}
}

// What a replaced Pod costs does not depend on the number of Pods: neither one of a headless service, nor the hundredth.
func TestReplacedPodCostsWhatChanged(t *testing.T) {
	for name, headless := range map[string]int{"with a cluster IP": 0, "headless": 1} {
		var made []float64
		for _, n := range []int{200, 2_000} {
			c, i := newCluster(n, 1, 3, headless), 0
			made = append(made, testing.AllocsPerRun(150, func() {
				c.replace(i*7%n, 0)
				i++
			}))
		}
		if made[1] > 1.3*made[0] || made[0] > 400 {
			t.Errorf("%s: among 600 Pods %.0f values are allocated, among 6,000 %.0f: want about the same few", name, made[0], made[1])
		}
	}
}

// Whether a mass of endpoints goes is decided without a walk over those that stay, which took 70 times as long among 15,000. The
// larger tables miss the processor's caches: up to 6 times as long were seen.
func TestRemovedPodIsMeasuredByWhatGoes(t *testing.T) {
	took := func(services int) time.Duration {
		c, best := newCluster(services, 1, 3, 0), time.Hour
		for i := range 100 {
			began := time.Now()
			c.replace(i*7%services, 0)
			best = min(best, time.Since(began))
		}
		return best
	}
	few, many := took(200), took(5_000)
	t.Logf("a replaced Pod takes %s among 600, %s among 15,000", few, many)
	if many > 15*few {
		t.Errorf("a replaced Pod takes %s among 600, %s among 15,000", few, many)
	}
}

// A replaced Pod of a service with many slices makes the service's list of endpoints anew, but nothing for each endpoint.
func TestReplacedPodOfALargeService(t *testing.T) {
	const pods = 5_000
	c, i := newCluster(1, pods/10, 10, 0), 0
	if made := testing.AllocsPerRun(20, func() {
		c.replace(0, i)
		i++
	}); made > pods/10 {
		t.Errorf("among %d Pods of one service %.0f values are allocated: want few", pods, made)
	}
}
