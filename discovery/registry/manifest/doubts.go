package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/model"
)

// Doubts are warnings about objects that are served, and that do not do what they seem to.

// doubts returns the warnings about one object.
func doubts(o held) (out []config.Problem) {
	for _, name := range slices.Sorted(maps.Keys(o.Object.GetAnnotations())) {
		if want := misplaced(o.meta.Kind, name); want != "" {
			out = append(out, problem(o.meta, config.Warning, fmt.Sprintf("metadata.annotations[%q]", name), "has no effect on a %s: %s", o.meta.Kind, want))
		}
	}
	switch x := o.Object.(type) {
	case *corev1.Namespace:
		warn := func(format string, args ...any) {
			out = append(out, problem(o.meta, config.Warning, "metadata.labels", format, args...))
		}
		revision, both := x.Labels["istio.io/rev"]
		if injection := x.Labels["istio-injection"]; injection != "" && injection != "disabled" && both {
			warn("istio-injection is %q, so that istio.io/rev, %q, has no effect: want one of the two", injection, revision)
		}
		if mode := x.Labels["istio.io/dataplane-mode"]; mode == "ambient" {
			warn("istio.io/dataplane-mode is %q, which has no effect: there is no ambient mode; want istio-injection or istio.io/rev alone", mode)
		}
	case *corev1.Service:
		if x.Spec.Type != corev1.ServiceTypeExternalName {
			break
		}
		for i, p := range x.Spec.Ports {
			at := func(format string, args ...any) {
				out = append(out, problem(o.meta, config.Warning, fmt.Sprintf("spec.ports[%d].name", i), format, args...))
			}
			switch protocol := model.DetectProtocol(deref(p.AppProtocol), p.Name, uint32(p.Port)); {
			case p.Protocol == corev1.ProtocolUDP:
			case protocol == model.Unknown:
				at("is %q, which names no protocol: connections to port %d that are not HTTP pass this Service by, since it has no address; want a name such as "+
					"https-%s or http-%s", p.Name, p.Port, orPort(p), orPort(p))
			case protocol == model.TCP:
				at("is %q, of TCP: unless externalName is a service of the mesh, every connection to port %d, to whatever address, goes to it, since it has no address; "+
					"want a name such as https-%s or tls-%s where clients speak TLS", p.Name, p.Port, orPort(p), orPort(p))
			}
		}
	}
	return out
}

// forPods are the domains of annotations that injection reads, of Pods.
var forPods = []string{"sidecar.istio.io/", "traffic.sidecar.istio.io/", "status.sidecar.istio.io/", "readiness.status.sidecar.istio.io/", "proxy.istio.io/", "inject.istio.io/"}

// misplaced returns what is wanted instead of an annotation of Istio that an object of a kind does not have; "" if it may
// have it.
func misplaced(kind, annotation string) string {
	switch {
	case kind == "Service" && strings.HasPrefix(annotation, "networking.istio.io/"):
		known := []string{"networking.istio.io/exportTo", "networking.istio.io/traffic-distribution"}
		if slices.Contains(known, annotation) {
			return ""
		}
		return "want " + strings.Join(known, " or ")
	case kind != "Ingress" && annotation == "kubernetes.io/ingress.class":
		return "want it on an Ingress"
	case kind == "Pod" || !slices.ContainsFunc(forPods, func(domain string) bool { return strings.HasPrefix(annotation, domain) }):
		return ""
	case slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"}, kind):
		return "want it in spec.template.metadata, for the Pods"
	}
	return "want it on Pods"
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func orPort(p corev1.ServicePort) string { return cmp.Or(p.Name, fmt.Sprint(p.Port)) }

// shared returns a warning for each template whose pods several Services lead to at one port with different protocols:
// only one of them is that of the inbound listener.
func shared(services []held, templates []template) (out []config.Problem) {
	type use struct {
		service  string
		protocol model.Protocol
	}
	for _, t := range templates {
		at := map[string]use{}
		for _, o := range services {
			s, said := o.Object.(*corev1.Service), false
			if len(s.Spec.Selector) == 0 || !model.Selects(s.Spec.Selector, t.labels) {
				continue
			}
			for _, p := range s.Spec.Ports {
				own := use{s.Name, model.DetectProtocol(deref(p.AppProtocol), p.Name, uint32(p.Port))}
				number := p.TargetPort.String()
				if number == "0" || number == "" {
					number = fmt.Sprint(p.Port)
				}
				first, known := at[number]
				if !known {
					at[number] = own
				} else if !said && first.service != own.service && first.protocol != own.protocol {
					said = true
					out = append(out, problem(t.meta, config.Warning, "", "Services %s and %s also select its Pods at port %s, as %s and %s: the sidecar takes one protocol there; "+
						"want one protocol", first.service, own.service, number, first.protocol, own.protocol))
				}
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Object < out[j].Object })
	return out
}
