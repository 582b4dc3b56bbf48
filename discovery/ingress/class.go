package ingress

import (
	"fmt"
	"maps"
	"slices"

	networkingv1 "github.com/pilotlight/pilotlight/discovery/kube/networking"
	"github.com/pilotlight/pilotlight/internal/spelling"
)

// classAnnotation names the class of an Ingress; it is older than the field ingressClassName.
const classAnnotation = "kubernetes.io/ingress.class"

// classUse is a class that Ingresses name, "" for those that name none.
type classUse struct {
	verdict verdict
	by      map[*ingress]bool
}

// verdict is whether Ingresses of a class are served.
type verdict struct {
	ours    bool
	known   bool   // an IngressClass or the flag has the name
	because string // it is not served; follows the field
	near    string // the class of this server that a misspelt name means
}

// readClass returns the class that an Ingress names, and the field. fault reports an annotation that is ignored.
func readClass(i *networkingv1.Ingress) (name, at, fault string) {
	name, at = i.Annotations[classAnnotation], "metadata.annotations["+classAnnotation+"]"
	if field := i.Spec.IngressClassName; field != nil {
		if name != "" && name != *field {
			fault = fmt.Sprintf("is %q and is ignored: spec.ingressClassName is %q", name, *field)
		}
		name, at = *field, "spec.ingressClassName"
	}
	if name == "" {
		at = "spec.ingressClassName"
	}
	return name, at, fault
}

// judge returns the verdict on a class.
func (t *Table) judge(name string) verdict {
	if name == "" {
		return verdict{ours: t.options.AnyClass || t.isDefault(), known: true, because: "is missing, and no IngressClass of " + Controller + " is the default: it is not served"}
	}
	if copies := t.classes[name]; len(copies) > 0 {
		by := copies[0].Spec.Controller
		return verdict{ours: by == Controller, known: true, because: fmt.Sprintf("is %q, an IngressClass of %s: it is not served here", name, by)}
	}
	if name == t.options.Class || t.options.AnyClass {
		return verdict{ours: true, known: true}
	}
	v := verdict{because: fmt.Sprintf("is %q, which is no IngressClass: it is not served, want %s, or an IngressClass of %s", name, t.options.Class, Controller)}
	near := spelling.Nearest(name, append(slices.Sorted(maps.Keys(t.classes)), t.options.Class))
	if near != "" && (near == t.options.Class || t.classes[near][0].Spec.Controller == Controller) {
		v.near = near
	}
	return v
}

// isDefault reports whether the default IngressClass is of this controller, so that Ingresses without a class are
// served.
func (t *Table) isDefault() bool {
	for _, copies := range t.classes {
		if copies[0].Spec.Controller == Controller && copies[0].Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return true
		}
	}
	return false
}

// use begins to use an Ingress, and drop ends it; both ignore nil.
func (t *Table) use(i *ingress) {
	if i == nil {
		return
	}
	u := t.uses[i.class]
	if u == nil {
		u = &classUse{t.judge(i.class), map[*ingress]bool{}}
		t.uses[i.class] = u
	}
	if u.by[i] = true; u.verdict.ours {
		t.enlist(i)
	}
}

func (t *Table) drop(i *ingress) {
	if i == nil {
		return
	}
	u := t.uses[i.class]
	if u.verdict.ours {
		t.retire(i)
	}
	if delete(u.by, i); len(u.by) == 0 {
		delete(t.uses, i.class)
	}
}

// judgeClasses begins and ends to serve the Ingresses of classes whose verdict has changed.
func (t *Table) judgeClasses() {
	if !t.pending.classes {
		return
	}
	for name, u := range t.uses {
		was := u.verdict
		if u.verdict = t.judge(name); u.verdict == was {
			continue
		}
		for i := range u.by {
			t.pending.faults[i.name()] = true
			switch {
			case u.verdict.ours && !was.ours:
				t.enlist(i)
			case was.ours && !u.verdict.ours:
				t.retire(i)
			}
		}
	}
}

// classFaults returns the faults of an Ingress's class. In an API server an Ingress of another class is another
// controller's, and has none.
func (t *Table) classFaults(i *ingress) (out []fault) {
	v := t.uses[i.class].verdict
	if v.known && i.classFault != "" {
		out = append(out, fault{path: "metadata.annotations[" + classAnnotation + "]", text: i.classFault})
	}
	switch {
	case v.ours:
	case v.near != "":
		out = append(out, fault{path: i.classAt, text: fmt.Sprintf("is %q, which is no IngressClass: did you mean %s?", i.class, v.near)})
	case i.at.File != "":
		out = append(out, fault{path: i.classAt, text: v.because})
	}
	return out
}
