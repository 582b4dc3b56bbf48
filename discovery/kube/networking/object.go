package networking

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AnnotationIsDefaultIngressClass is "true" at the IngressClass of Ingresses that name none.
const AnnotationIsDefaultIngressClass = "ingressclass.kubernetes.io/is-default-class"

// Version returns the version of all types here.
func Version() schema.GroupVersion {
	return schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}
}

// AddToScheme makes the types known.
func AddToScheme(to *runtime.Scheme) {
	to.AddKnownTypes(Version(), &Ingress{}, &IngressList{}, &IngressClass{}, &IngressClassList{})
}

// IngressList is a list of Ingresses, as an API server sends it.
type IngressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Ingress `json:"items"`
}

// IngressClassList is a list of IngressClasses, as an API server sends it.
type IngressClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngressClass `json:"items"`
}

// DeepCopyObject returns a copy that shares nothing. Schemes require it of their types; no client here calls it.
func (i *Ingress) DeepCopyObject() runtime.Object { return deepCopy(i) }

// DeepCopyObject is that of an Ingress.
func (l *IngressList) DeepCopyObject() runtime.Object { return deepCopy(l) }

// DeepCopyObject is that of an Ingress.
func (c *IngressClass) DeepCopyObject() runtime.Object { return deepCopy(c) }

// DeepCopyObject is that of an Ingress.
func (l *IngressClassList) DeepCopyObject() runtime.Object { return deepCopy(l) }

func deepCopy[T any](in *T) *T {
	out := new(T)
	text, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		panic(fmt.Sprintf("copy a %T: %v", in, err)) // a type here has a field that JSON cannot hold
	}
	return out
}
