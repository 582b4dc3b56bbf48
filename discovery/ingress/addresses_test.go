package ingress

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAddresses(t *testing.T) {
	pod := func(name, namespace, app, node string, ready bool) *corev1.Pod {
		status := corev1.ConditionFalse
		if ready {
			status = corev1.ConditionTrue
		}
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}},
		}
	}
	node := func(addresses ...corev1.NodeAddress) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Addresses: addresses}}
	}
	pods := []*corev1.Pod{
		pod("c", "gw", "gw", "n2", true), pod("a", "gw", "gw", "n1", true), pod("b", "gw", "gw", "n1", true), pod("d", "gw", "gw", "n3", false), pod("e", "gw", "other", "n3", true),
		pod("f", "other", "gw", "n3", true), pod("g", "gw", "gw", "gone", true),
	}
	nodes := map[string]*corev1.Node{
		"n1": node(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "192.0.2.9"}),
		"n2": node(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.2"}), "n3": node(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.3"}),
	}
	service := func(spec corev1.ServiceSpec, ingress ...corev1.LoadBalancerIngress) *corev1.Service {
		spec.Selector = map[string]string{"app": "gw"}
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "gw"}, Spec: spec, Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: ingress}}}
	}
	for name, row := range map[string]struct {
		service *corev1.Service
		want    string
	}{
		"none":            {nil, "[]"},
		"load balancer":   {service(corev1.ServiceSpec{}, corev1.LoadBalancerIngress{IP: "192.0.2.2"}, corev1.LoadBalancerIngress{Hostname: "lb.test"}), "[{ lb.test []} {192.0.2.2  []}]"},
		"external IPs":    {service(corev1.ServiceSpec{ExternalIPs: []string{"192.0.2.4", "192.0.2.3", "192.0.2.4"}}), "[{192.0.2.3  []} {192.0.2.4  []}]"},
		"nodes":           {service(corev1.ServiceSpec{}), "[{10.0.0.2  []} {192.0.2.9  []}]"},
		"a name":          {service(corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "gw.test"}), "[{ gw.test []}]"},
		"without pods of": {&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "gw"}}, "[]"},
	} {
		if got := fmt.Sprint(Addresses(row.service, pods, nodes)); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
	}
}
