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
	security "istio.io/api/security/v1beta1"
)

// Spec is the body of a configuration object, for the kinds that discovery serves.
type Spec interface {
	*networking.VirtualService | *networking.DestinationRule | *networking.Sidecar | *networking.ServiceEntry |
		*networking.Gateway | *networking.WorkloadEntry | *networking.WorkloadGroup | *v1beta1.ProxyConfig |
		*security.AuthorizationPolicy | *security.PeerAuthentication | *security.RequestAuthentication | *meshconfig.MeshConfig | *meshconfig.MeshNetworks
}

// Object is one Istio configuration object, decoded and validated. Spec holds one of the types of Spec.
type Object struct {
	Meta
	Spec     any
	Warnings *Warnings // nil for most objects; a pointer, since it has room in an Object at no cost
}

// Config is an object with the type of its kind.
type Config[S Spec] struct {
	Meta
	Spec S
}

// Meta identifies an object and its origin.
type Meta struct {
	Kind      string            `json:"Kind"` // "VirtualService"
	Namespace string            `json:"Namespace"`
	Name      string            `json:"Name"`
	Labels    map[string]string `json:"Labels"`
	Created   time.Time         `json:"Created"` // zero if the store does not provide it
	Origin    Origin            `json:"Origin"`

	// Closed marks what stands for an object that has an error and may keep somebody out: its good form is not known.
	Closed bool `json:"Closed"`

	// WholeHosts is of a VirtualService: a host of one label is that name, and no service of the namespace
	WholeHosts bool `json:"WholeHosts"`
	DryRun     bool `json:"DryRun"` // of an AuthorizationPolicy: it is judged, and keeps nobody out
}

// Key identifies the object: "VirtualService/default/reviews".
func (m Meta) Key() string { return m.Kind + "/" + m.Namespace + "/" + m.Name }

// Older orders objects by age, then by namespace and name: of two objects that claim one host, the first in this order
// is used.
func (m Meta) Older(o Meta) int {
	return cmp.Or(m.Created.Compare(o.Created), strings.Compare(m.Namespace, o.Namespace),
		strings.Compare(m.Name, o.Name))
}

// Origin is the place where the object is defined: a file and the line of its first key, or a record.
type Origin struct {
	File   string  `json:"File"`
	Line   int     `json:"Line"`
	Fields Lines   `json:"Fields"` // the lines of its fields
	Record *Record `json:"Record"` // in a registry or an API server; nil for a file
}

// Record is one version of an object in a registry or an API server.
type Record struct {
	Cluster string `json:"Cluster"` // of the registry
	// UID is constant while the object exists; an object that is deleted and created again has another one
	UID string `json:"UID"`
	// Generation increases with each change of its specification; 0 if there is no such counter
	Generation int64 `json:"Generation"`
	// Version changes with every change of it: Kubernetes' resourceVersion, Consul's index
	Version string `json:"Version"`
	// Relayed is whether it is from another control plane: not served again, or each would keep the other's copy
	Relayed bool `json:"Relayed"`
}

// String returns the place, or "" if it is not known.
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

// Cluster returns the cluster of the object, or "" if its store has none.
func (o Origin) Cluster() string {
	if o.Record == nil {
		return ""
	}
	return o.Record.Cluster
}

// Note is a problem of an object that shows when all other objects are known: it names a host, a subset or a gateway
// that does not exist, or another object is used instead.
type Note struct {
	Code    Code
	Meta    Meta
	Path    string // "spec.http[0].route[1].destination.subset"; empty for the whole object
	Message string
	Other   Meta // the object that is used instead, in a Conflict

	// Missing is the host of the service that is not known, or not whole, or the namespace; empty in notes about others.
	Missing string

	// Proxies are the connected proxies that a note about an object concerns, as NAMESPACE/NAME: the first few.
	Proxies []string
}

// Line returns the line of the field, or of the nearest field above it that the file has.
func (n Note) Line() int {
	path := n.Path
	if n.Meta.Kind == "MeshConfig" || n.Meta.Kind == "MeshNetworks" {
		path = "spec." + path // their files have no envelope, and their lines are recorded as if there were one
	}
	return n.Meta.Origin.Fields.At(path, n.Meta.Origin.Line)
}

// Code is the kind of a note; notes are counted by code.
type Code string

const (
	UnknownHost      Code = "unknown-host"      // no service has it
	UnknownPort      Code = "unknown-port"      // the service has no such port
	UnknownSubset    Code = "unknown-subset"    // no DestinationRule declares it
	UnknownGateway   Code = "unknown-gateway"   // no Gateway has the name
	UnknownDelegate  Code = "unknown-delegate"  // no VirtualService has the name
	UnknownNamespace Code = "unknown-namespace" // nothing is known in it
	EmptySubset      Code = "empty-subset"      // no endpoint has its labels
	NoAddress        Code = "no-address"        // no workload of a template is an endpoint
	EmptySelector    Code = "empty-selector"    // no workload has its labels
	NotHTTP          Code = "not-http"          // HTTP routes of a service without an HTTP port
	NeverEjects      Code = "never-ejects"      // outlier detection that can never eject an endpoint
	NeverFailsOver   Code = "never-fails-over"  // failover without outlier detection
	TLSDropped       Code = "tls-dropped"       // a narrower policy that does not repeat the wider one's TLS
	PlainToTLS       Code = "plain-to-tls"      // clients send plain text to a TLS server
	Conflict         Code = "conflict"          // another object is used instead
	ReservedPort     Code = "reserved-port"     // proxies reserve it for themselves
	RefusedByProxy   Code = "refused-by-proxy"  // a connected Envoy rejected the configuration made from it
	PrivilegedPort   Code = "privileged-port"   // connected proxies cannot open it
	IgnoredField     Code = "ignored-field"     // it has no effect
	LongServerName   Code = "long-server-name"  // longer than a TLS handshake allows
	ForeignHost      Code = "foreign-host"      // another namespace decides the routes of a service
	ForeignAddress   Code = "foreign-address"   // another namespace has the address of a Pod as an endpoint
	TakenAddress     Code = "taken-address"     // it belongs to another namespace, so its connections do not come here
	UnservedHost     Code = "unserved-host"     // no server of the Gateway has it
	TLSToPlain       Code = "tls-to-plain"      // clients send TLS to a sidecar that takes plain text
	NoProxy          Code = "no-proxy"          // no connected proxy has its labels
	NoLabels         Code = "no-labels"         // a connected proxy has none, where labels select
	NoWorkload       Code = "no-workload"       // no workload or endpoint has the address of a connected proxy
	WithheldSecret   Code = "withheld-secret"   // a connected proxy does not get a secret that it requests
	NoServicePort    Code = "no-service-port"   // no Service before the gateways leads to it
	SharedCert       Code = "shared-cert"       // two Gateways have one certificate at one port
	WiderServer      Code = "wider-server"      // requests for its host come within the TLS of another server, which asks for less
	AnyPort          Code = "any-port"          // a destination names none of several ports
	MoreNotes        Code = "more-notes"        // an object has more than are named
	LocalEndpoint    Code = "local-endpoint"    // proxies of other namespaces do not get it: it leads to their own sockets
	FailsOpen        Code = "fails-open"        // it lets in unasked what it names while its provider is away
	NotHTTP2         Code = "not-http2"         // a provider of gRPC is asked at a port that is not of HTTP/2
	UndeclaredPort   Code = "undeclared-port"   // HTTP is detected at a port, and a policy of HTTP does not read what is not
	NoKeys           Code = "no-keys"           // keys that it names by address are not known yet
	ClosedPolicy     Code = "closed-policy"     // it has an error, and closes what it may have named
	NoCertificate    Code = "no-certificate"    // a connected proxy has none, where a policy asks for one
	NoAccount        Code = "no-account"        // clients accept every certificate of the mesh
	MixedInstances   Code = "mixed-instances"   // clients send plain text to all, since some take no mutual TLS
	ForeignBind      Code = "foreign-bind"      // a gateway of another namespace does not open it
	TooMuch          Code = "too-much"          // it is for its own namespace only: that namespace gives more to others than its share
	WrongNamespace   Code = "wrong-namespace"   // a connected proxy's domain or Pod is of another namespace than the proxy
	WrongDomain      Code = "wrong-domain"      // a connected proxy's DNS domain is not the mesh's
	CannotBind       Code = "cannot-bind"       // a connected Envoy does not get the port of a listener
	OldEnvoy         Code = "old-envoy"         // a connected Envoy is older than the configuration that it gets
	OldAgent         Code = "old-agent"         // a connected proxy's agent is older than discovery
	NoRedirect       Code = "no-redirect"       // a connected proxy's program is reached past its Envoy
	UnknownIssuer    Code = "unknown-issuer"    // no issuer of certificates has the name
	ACMENoHTTP       Code = "acme-no-http"      // no connected gateway serves a host at port 80, where an issuer asks
	ACMERefused      Code = "acme-refused"      // an issuer has given no certificate
	ACMEWaits        Code = "acme-waits"        // an issuer asks to wait
	Warned           Code = "warning"           // reading it alone gave a warning
	DNSCapture       Code = "dns-capture"       // DNS is captured on one side only: by the proxy's metadata, or by what redirects and asks
)
