package model

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

// Spec is the body of an Istio configuration object, of the kinds that discovery serves.
type Spec interface {
	*networking.VirtualService | *networking.DestinationRule | *networking.Sidecar | *networking.ServiceEntry
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
	Created   time.Time // zero where the store does not know
	Origin    Origin
}

// Key names the object in its store: "VirtualService/default/reviews".
func (m Meta) Key() string { return m.Kind + "/" + m.Namespace + "/" + m.Name }

// Older orders objects by age, then by name: of two that claim one host the first of this order wins.
func (m Meta) Older(o Meta) int {
	return cmp.Or(m.Created.Compare(o.Created), strings.Compare(m.Namespace, o.Namespace), strings.Compare(m.Name, o.Name))
}

// Origin is where a person finds the object: a file and the line of its first key.
type Origin struct {
	File string
	Line int
}

func (o Origin) String() string { return fmt.Sprintf("%s:%d", o.File, o.Line) }
