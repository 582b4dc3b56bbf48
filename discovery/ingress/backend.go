package ingress

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// route returns the route to a backend. If the backend does not exist, requests are answered with 503, and fault gives
// the reason.
func (t *Table) route(namespace string, b *networkingv1.IngressBackend) (out *networking.HTTPRoute, fault string) {
	port, fault := t.port(namespace, b)
	if fault != "" {
		return &networking.HTTPRoute{DirectResponse: &networking.HTTPDirectResponse{Status: 503}}, fault + ", answered with 503"
	}
	return &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{
		Host: t.options.Domain.Host(b.Service.Name, namespace), Port: &networking.PortSelector{Number: port},
	}}}}, ""
}

// port returns the number of a backend's port.
func (t *Table) port(namespace string, b *networkingv1.IngressBackend) (number uint32, fault string) {
	switch {
	case b.Resource != nil:
		return 0, fmt.Sprintf("backend.resource %s %s is no Service, and is not served", b.Resource.Kind, b.Resource.Name)
	case b.Service == nil:
		return 0, "backend.service is missing"
	}
	ports, there := t.services[Name{namespace, b.Service.Name}]
	if !there {
		return 0, fmt.Sprintf("backend.service.name is %q, which is no Service of namespace %s", b.Service.Name, namespace)
	}
	want := b.Service.Port
	i := slices.IndexFunc(ports, func(p corev1.ServicePort) bool {
		return want.Name != "" && p.Name == want.Name || want.Name == "" && p.Port == want.Number
	})
	if i < 0 && want.Name != "" {
		return 0, fmt.Sprintf("backend.service.port.name is %q, which is no port of Service %s", want.Name, b.Service.Name)
	}
	if i < 0 {
		return 0, fmt.Sprintf("backend.service.port.number is %d, which is no port of Service %s", want.Number, b.Service.Name)
	}
	return uint32(ports[i].Port), ""
}
