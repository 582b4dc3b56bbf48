package ingress

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
)

// route returns the route to a backend. If the backend does not exist, requests are answered with 503, and wrong gives
// the reason, with its path below the backend.
func (t *Table) route(namespace string, b *networkingv1.IngressBackend) (out *networking.HTTPRoute, wrong *fault) {
	port, wrong := t.port(namespace, b)
	if wrong != nil {
		wrong.text += ", answered with 503"
		return &networking.HTTPRoute{DirectResponse: &networking.HTTPDirectResponse{Status: 503}}, wrong
	}
	return &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{
		Host: t.options.Domain.Host(b.Service.Name, namespace), Port: &networking.PortSelector{Number: port},
	}}}}, nil
}

// port returns the number of a backend's port.
func (t *Table) port(namespace string, b *networkingv1.IngressBackend) (number uint32, wrong *fault) {
	fault := func(path, format string, args ...any) (uint32, *fault) {
		return 0, &fault{path: path, text: fmt.Sprintf(format, args...)}
	}
	switch {
	case b.Resource != nil:
		return fault(".resource", "%s %s is no Service, and is not served", b.Resource.Kind, b.Resource.Name)
	case b.Service == nil:
		return fault(".service", "is missing")
	}
	forms := t.services[Name{namespace, b.Service.Name}]
	if len(forms) == 0 {
		_, wrong = fault(".service.name", "is %q, which is no Service of namespace %s", b.Service.Name, namespace)
		wrong.missing = true
		return 0, wrong
	}
	want := b.Service.Port
	for _, form := range forms {
		i := slices.IndexFunc(form.ports, func(p corev1.ServicePort) bool {
			return want.Name != "" && p.Name == want.Name || want.Name == "" && p.Port == want.Number
		})
		if i >= 0 {
			return uint32(form.ports[i].Port), nil
		}
	}
	if want.Name != "" {
		return fault(".service.port.name", "is %q, which is no port of Service %s", want.Name, b.Service.Name)
	}
	return fault(".service.port.number", "is %d, which is no port of Service %s", want.Number, b.Service.Name)
}
