package model

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// Spec is the body of a configuration object, of the kinds that discovery serves.
type Spec interface {
	*networking.VirtualService | *networking.DestinationRule | *networking.Sidecar | *networking.ServiceEntry |
		*networking.Gateway | *networking.WorkloadEntry | *networking.WorkloadGroup |
		*meshconfig.MeshConfig | *meshconfig.MeshNetworks
}

// Object is one Istio configuration object, decoded and validated. Spec holds one of the types of Spec.
type Object struct {
	Meta
	Spec any
}

// Config is an object whose kind is known.
type Config[S Spec] struct {
	Meta
	Spec S
}

// Meta says which object it is and where it came from.
type Meta struct {
	Kind      string // "VirtualService"
	Namespace string
	Name      string
	Labels    map[string]string
	Created   time.Time // zero where the store does not know
	Origin    Origin
}

// Key names the object in its store: "VirtualService/default/reviews".
func (m Meta) Key() string { return m.Kind + "/" + m.Namespace + "/" + m.Name }

// Older orders objects by age, then by name: of two that claim one host the first of this order wins.
func (m Meta) Older(o Meta) int {
	return cmp.Or(m.Created.Compare(o.Created), strings.Compare(m.Namespace, o.Namespace),
		strings.Compare(m.Name, o.Name))
}

// Origin is where a person finds the object: a file and the line of its first key.
type Origin struct {
	File string
	Line int
}

func (o Origin) String() string { return fmt.Sprintf("%s:%d", o.File, o.Line) }

// Note is what is to be said about an object once all the others are known: it names a host, a subset or a gateway
// that nobody has, or another object won.
type Note struct {
	Meta    Meta
	Path    string // "spec.http[0].route[1].destination.subset"; empty for the object as a whole
	Message string
}
