package networking

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ingress leads requests from outside of a cluster to Services.
type Ingress struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              IngressSpec   `json:"spec,omitempty"`
	Status            IngressStatus `json:"status,omitempty"`
}

// IngressSpec has the rules of an Ingress.
type IngressSpec struct {
	IngressClassName *string         `json:"ingressClassName,omitempty"`
	DefaultBackend   *IngressBackend `json:"defaultBackend,omitempty"` // of requests that match no rule
	TLS              []IngressTLS    `json:"tls,omitempty"`
	Rules            []IngressRule   `json:"rules,omitempty"`
}

// IngressTLS names the Secret with the certificate of hosts.
type IngressTLS struct {
	Hosts      []string `json:"hosts,omitempty"`
	SecretName string   `json:"secretName,omitempty"`
}

// IngressRule has the paths of a host; of every host if it names none.
type IngressRule struct {
	Host             string `json:"host,omitempty"`
	IngressRuleValue `json:",inline"`
}

// IngressRuleValue is the part of a rule that depends on the protocol.
type IngressRuleValue struct {
	HTTP *HTTPIngressRuleValue `json:"http,omitempty"`
}

// HTTPIngressRuleValue has the paths of a rule.
type HTTPIngressRuleValue struct {
	Paths []HTTPIngressPath `json:"paths"`
}

// HTTPIngressPath leads a path to a backend.
type HTTPIngressPath struct {
	Path     string         `json:"path,omitempty"`
	PathType *PathType      `json:"pathType"`
	Backend  IngressBackend `json:"backend"`
}

// PathType is how a path is compared.
type PathType string

// The values of a PathType.
const (
	PathTypeExact                  = PathType("Exact")
	PathTypePrefix                 = PathType("Prefix")
	PathTypeImplementationSpecific = PathType("ImplementationSpecific")
)

// IngressBackend is a Service or an object of another kind.
type IngressBackend struct {
	Service  *IngressServiceBackend            `json:"service,omitempty"`
	Resource *corev1.TypedLocalObjectReference `json:"resource,omitempty"`
}

// IngressServiceBackend is a port of a Service.
type IngressServiceBackend struct {
	Name string             `json:"name"`
	Port ServiceBackendPort `json:"port,omitempty"`
}

// ServiceBackendPort is a port by its name or its number.
type ServiceBackendPort struct {
	Name   string `json:"name,omitempty"`
	Number int32  `json:"number,omitempty"`
}

// IngressStatus has the addresses at which an Ingress is served.
type IngressStatus struct {
	LoadBalancer IngressLoadBalancerStatus `json:"loadBalancer,omitempty"`
}

// IngressLoadBalancerStatus has these addresses.
type IngressLoadBalancerStatus struct {
	Ingress []IngressLoadBalancerIngress `json:"ingress,omitempty"`
}

// IngressLoadBalancerIngress is one of them.
type IngressLoadBalancerIngress struct {
	IP       string              `json:"ip,omitempty"`
	Hostname string              `json:"hostname,omitempty"`
	Ports    []IngressPortStatus `json:"ports,omitempty"`
}

// IngressPortStatus is a port of an address.
type IngressPortStatus struct {
	Port     int32           `json:"port"`
	Protocol corev1.Protocol `json:"protocol"`
	Error    *string         `json:"error,omitempty"`
}

// IngressClass names the program that serves the Ingresses of a class.
type IngressClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              IngressClassSpec `json:"spec,omitempty"`
}

// IngressClassSpec has the name of that program, and parameters for it.
type IngressClassSpec struct {
	Controller string                           `json:"controller,omitempty"`
	Parameters *IngressClassParametersReference `json:"parameters,omitempty"`
}

// IngressClassParametersReference names an object with parameters.
type IngressClassParametersReference struct {
	APIGroup  *string `json:"apiGroup,omitempty"`
	Kind      string  `json:"kind"`
	Name      string  `json:"name"`
	Scope     *string `json:"scope"`
	Namespace *string `json:"namespace,omitempty"`
}

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
