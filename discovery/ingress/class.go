package ingress

import (
	"fmt"
	"maps"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/pilotlight/pilotlight/internal/spelling"
)

// classAnnotation names the class of an Ingress; it is older than the field ingressClassName.
const classAnnotation = "kubernetes.io/ingress.class"

// claim reports whether this server serves an Ingress, by its class. fault reports an annotation that is ignored, or a
// class name that is probably misspelt.
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

// isDefault reports whether the default IngressClass is of this controller, so that Ingresses without a class are
// served.
func (t *Table) isDefault() bool {
	for _, class := range t.classes {
		if class.Spec.Controller == Controller && class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return true
		}
	}
	return false
}
