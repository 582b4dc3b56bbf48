package model

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	"istio.io/api/networking/v1beta1"
)

// Spec is the body of a configuration object, of the kinds that discovery serves.
type Spec interface {
	*networking.VirtualService | *networking.DestinationRule | *networking.Sidecar | *networking.ServiceEntry |
		*networking.Gateway | *networking.WorkloadEntry | *networking.WorkloadGroup | *v1beta1.ProxyConfig |
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

// Origin is where a person finds the object: a file and the line of its first key, or a record.
type Origin struct {
	File   string
	Line   int
	Fields Lines   // where its fields are
	Record *Record // in a registry or an API server; nil for a file
}

// Record is one version of what a registry or an API server has.
type Record struct {
	Cluster    string // of the registry
	UID        string // stays when it is changed, and is another one when it is deleted and made again
	Generation int64  // grows with each change of its specification; 0 where nobody counts
	Version    string // changes with every change of it: Kubernetes' resourceVersion, Consul's index
	Relayed    bool   // another control plane serves it: it is not served on as an object, or two would keep it for each other
}

// String names the place, "" where it is not known.
func (o Origin) String() string {
	switch {
	case o.Record != nil:
		return o.Record.String()
	case o.File != "":
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	default:
		return ""
	}
}

func (r *Record) String() string {
	var parts []string
	for _, part := range []struct{ name, value string }{
		{"cluster", r.Cluster}, {"uid", r.UID}, {"generation", generation(r.Generation)}, {"version", r.Version},
	} {
		if part.value != "" {
			parts = append(parts, part.name+" "+part.value)
		}
	}
	return strings.Join(parts, ", ")
}

func generation(g int64) string {
	if g == 0 {
		return ""
	}
	return strconv.FormatInt(g, 10)
}

// Cluster is the one that the object is in, "" where its store knows none.
func (o Origin) Cluster() string {
	if o.Record == nil {
		return ""
	}
	return o.Record.Cluster
}

// Note is what is to be said about an object once all the others are known: it names a host, a subset or a gateway
// that nobody has, or another object won.
type Note struct {
	Code    Code
	Meta    Meta
	Path    string // "spec.http[0].route[1].destination.subset"; empty for the object as a whole
	Message string
	Other   Meta // the object that wins, of a Conflict
}

// Line is the line of the field, or of the nearest one above it that the file has.
func (n Note) Line() int { return n.Meta.Origin.Fields.At(n.Path, n.Meta.Origin.Line) }

// Code is the kind of a note, by which notes are counted.
type Code string

const (
	UnknownHost      Code = "unknown-host"      // no service has it
	UnknownPort      Code = "unknown-port"      // the service has no such port
	UnknownSubset    Code = "unknown-subset"    // no DestinationRule declares it
	UnknownGateway   Code = "unknown-gateway"   // no Gateway has the name
	UnknownDelegate  Code = "unknown-delegate"  // no VirtualService has the name
	UnknownNamespace Code = "unknown-namespace" // nothing is in it
	EmptySubset      Code = "empty-subset"      // no endpoint has its labels
	NoAddress        Code = "no-address"        // nothing that a template starts is an endpoint
	EmptySelector    Code = "empty-selector"    // no workload has its labels
	NotHTTP          Code = "not-http"          // HTTP routes of a service without an HTTP port
	NeverEjects      Code = "never-ejects"      // outlier detection that may eject nobody
	NeverFailsOver   Code = "never-fails-over"  // failover without outlier detection
	TLSDropped       Code = "tls-dropped"       // a narrower policy without the wider one's TLS
	PlainToTLS       Code = "plain-to-tls"      // clients speak plain text to a server of TLS
	Conflict         Code = "conflict"          // another object wins
	ReservedPort     Code = "reserved-port"     // proxies have it for themselves
	RefusedByProxy   Code = "refused-by-proxy"  // an Envoy that is connected does not take what was made of it
	PrivilegedPort   Code = "privileged-port"   // proxies that are connected cannot open it
	IgnoredField     Code = "ignored-field"     // nothing is made of it
	LongServerName   Code = "long-server-name"  // a handshake has no place for it
)
