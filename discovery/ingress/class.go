package ingress

import (
	"fmt"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// classAnnotation is how classes were named before Ingresses had a field for it.
const classAnnotation = "kubernetes.io/ingress.class"

// claim reports whether an Ingress is of our class; if not, and it is likely meant to be, why.
func (t *Table) claim(i *ingress) (ours bool, fault string) {
	name, at := i.Annotations[classAnnotation], "metadata.annotations["+classAnnotation+"]"
	if i.Spec.IngressClassName != nil {
		if name != "" && name != *i.Spec.IngressClassName {
			fault = fmt.Sprintf("%s is %q and is ignored: spec.ingressClassName is %q", at, name, *i.Spec.IngressClassName)
		}
		name, at = *i.Spec.IngressClassName, "spec.ingressClassName"
	}
	if name == "" {
		return t.isDefault(), ""
	}
	if class := t.classes[name]; class != nil {
		return class.Spec.Controller == Controller, fault
	}
	if name == t.options.Class {
		return true, fault
	}
	known := append(slices.Collect(maps.Keys(t.classes)), t.options.Class)
	if near := spelling.Nearest(name, known); near != "" && (near == t.options.Class || t.classes[near].Spec.Controller == Controller) {
		return false, fmt.Sprintf("%s is %q, which is no IngressClass: did you mean %s?", at, name, near)
	}
	return false, ""
}

// isDefault reports whether Ingresses without a class are ours.
func (t *Table) isDefault() bool {
	for _, class := range t.classes {
		if class.Spec.Controller == Controller && class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return true
		}
	}
	return false
}
