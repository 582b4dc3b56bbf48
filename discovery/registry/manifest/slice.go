package manifest

//lint:file-ignore SA1019 deprecated types of Kubernetes are read too: files still have them

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// newSlice returns an EndpointSlice of a Service. Its name shows what it was made from; no slice that a user writes has
// such a name.
func newSlice(namespace, service string, family discoveryv1.AddressType, format string, args ...any) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf(format, args...), Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: family,
	}
}

// family returns the family of an address; other text is reported as a wrong IPv4 address.
func family(address string) discoveryv1.AddressType {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Unmap().Is6() {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// slicesOfEndpoints returns Endpoints as EndpointSlices: one for each list of ports and family.
func slicesOfEndpoints(o *corev1.Endpoints) (out []*discoveryv1.EndpointSlice) {
	for i, subset := range o.Subsets {
		ports := []discoveryv1.EndpointPort{}
		for _, p := range subset.Ports {
			ports = append(ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
		}
		by := map[discoveryv1.AddressType]*discoveryv1.EndpointSlice{}
		add := func(a corev1.EndpointAddress, ready bool) {
			at := family(a.IP)
			if by[at] == nil {
				by[at] = newSlice(o.Namespace, o.Name, at, "of Endpoints %s, subsets[%d], %s,", o.Name, i, at)
				by[at].Ports = ports
				out = append(out, by[at])
			}
			by[at].Endpoints = append(by[at].Endpoints, discoveryv1.Endpoint{
				Addresses: []string{a.IP}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}, TargetRef: a.TargetRef, NodeName: a.NodeName,
			})
		}
		for _, a := range subset.Addresses {
			add(a, true)
		}
		for _, a := range subset.NotReadyAddresses {
			add(a, false)
		}
	}
	return out
}

// sliceOfPod returns a slice with a Pod as an endpoint of a Service that selects it; nil if the Pod cannot be called.
func sliceOfPod(s *corev1.Service, p *corev1.Pod) *discoveryv1.EndpointSlice {
	address := p.Status.PodIP
	for _, ip := range p.Status.PodIPs {
		if address == "" || len(s.Spec.IPFamilies) > 0 && string(family(ip.IP)) == string(s.Spec.IPFamilies[0]) {
			address = ip.IP
		}
	}
	if address == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	out := newSlice(s.Namespace, s.Name, family(address), "of Pod %s of Service %s", p.Name, s.Name)
	for _, port := range s.Spec.Ports {
		number := cmp.Or(port.TargetPort.IntVal, port.Port)
		if port.TargetPort.Type == intstr.String {
			var ok bool
			if number, ok = numberOf([][]corev1.Container{p.Spec.Containers, sidecars(p.Spec.InitContainers)}, port); !ok {
				continue
			}
		}
		out.Ports = append(out.Ports, discoveryv1.EndpointPort{Name: &port.Name, Port: &number, Protocol: &port.Protocol})
	}
	if len(s.Spec.Ports) > 0 && len(out.Ports) == 0 {
		return nil
	}
	ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	terminating, serving := p.DeletionTimestamp != nil, ready
	ready = ready && !terminating
	out.Endpoints = []discoveryv1.Endpoint{{
		Addresses: []string{address}, NodeName: &p.Spec.NodeName,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
	}}
	return out
}

// settled returns the Pod, marked as ready unless it has another status: nothing checks its readiness here.
func settled(p *corev1.Pod) *corev1.Pod {
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady }) {
		return p
	}
	p = p.DeepCopy()
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	return p
}
