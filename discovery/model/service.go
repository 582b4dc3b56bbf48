package model

import (
	"slices"
	"strings"
	"time"
)

// Service is one host that workloads of the mesh can call, as a registry describes it.
type Service struct {
	Registry string // the registry that has it, such as Kubernetes; "" for a ServiceEntry
	Cluster  string // of the registry
	Origin   Origin // its record in the registry; for a ServiceEntry see the object

	Right      Right  // to the host: RightFull, unless anybody may write to the registry
	Host       string // lower case, fully qualified; "*.example.com" for a wildcard
	Namespace  string // of its declaration
	Name       string // of the object that declares it, "" if there is none
	Created    time.Time
	Resolution Resolution
	External   bool     // outside the mesh
	Headless   bool     // without an address of its own: clients dial the endpoints
	NodeLocal  bool     // a proxy whose node is known uses only the endpoints on its node
	Prefer     Prefer   // which endpoints are preferred, unless a DestinationRule configures it
	Addresses  []string // its own, IP addresses or CIDRs; none if clients connect to the addresses that its name resolves to
	Ports      []Port
	Endpoints  []Endpoint

	// ClusterAddresses are the addresses of the service in clusters that give it other addresses than the owner's
	// cluster, by cluster: see AddressesIn. They are set when declarations are joined (union.go).
	ClusterAddresses map[string][]string

	ExternalName string   // a host of which this is only another name; "" for none. It is the address of the one endpoint too
	AliasOf      string   // the service to which that leads, "" for none. The mesh sets it, see alias.go
	Aliases      []string // the hosts that lead to this service so, sorted. The mesh sets them

	// Selector adds the workloads of the service's namespace with these labels to Endpoints, except those of its own
	// registry. Empty adds none.
	Selector map[string]string

	// Ignored describes the settings of its record that have no effect, one sentence for each.
	Ignored []string

	ExportTo        []string // namespaces that see it: "." is its own, "*" or an empty list every one, "~" none
	SubjectAltNames []string // of its certificates
	Accounts        []string // NAMESPACE/NAME of service accounts, whose names its certificates may have, see Settings.Subjects
}

// Port returns the port with a number; false if the service has none.
func (s *Service) Port(number uint32) (Port, bool) {
	i := slices.IndexFunc(s.Ports, func(p Port) bool { return p.Number == number })
	if i < 0 {
		return Port{}, false
	}
	return s.Ports[i], true
}

// Port is one port of a service.
type Port struct {
	Name     string // unique within the service
	Number   uint32 // as clients dial it
	Target   uint32 // that endpoints listen on unless they set their own; 0 for Number
	Protocol Protocol
}

// Endpoint is one address of a service.
type Endpoint struct {
	Address  string            // an IP address, a DNS name where Envoy resolves it, or unix:///path
	Ports    map[string]uint32 // port name → the port it listens on, where it differs from the service's
	Labels   map[string]string // subsets select by them
	Weight   uint32            // relative to the others; 0 means 1
	Locality Locality
	Network  string // from which the address is reachable; "" for the mesh's own
	Partial  bool   // it serves only the ports in Ports

	Cluster        string // that it runs in
	ServiceAccount string // that it runs as, in the namespace of its service
	Proxied        bool   // its declaration says that it has a sidecar: see TakesMutualTLS
	Health         Health
	Hostname       string // the label of its own name below a headless service's host; "" for none
	Node           string // that it runs on; only set if its service is NodeLocal or prefers the node
}

// Prefer defines which endpoints receive requests before others, by distance: Kubernetes' trafficDistribution.
type Prefer uint8

const (
	PreferNone Prefer = iota // as policies define it
	PreferZone               // of the proxy's zone, then of its region
	PreferNode               // of the proxy's node, then of its zone and its region
)

// readsNode reports whether the endpoints that a proxy receives depend on the node that it runs on.
func (s *Service) readsNode() bool { return s.NodeLocal || s.Prefer == PreferNode }

// PortOn returns the number of the port on which the endpoint serves p, or 0 if it does not serve p.
func (e Endpoint) PortOn(p Port) uint32 {
	if n, ok := e.Ports[p.Name]; ok || e.Partial {
		return n
	}
	if p.Target != 0 {
		return p.Target
	}
	return p.Number
}

// tlsModeLabel says whether a workload's sidecar takes mutual TLS; Istio's injector sets it.
const tlsModeLabel = "security.istio.io/tlsMode"

// TakesMutualTLS reports whether the sidecar of the endpoint takes mutual TLS: its label says so, or, without a label, its
// declaration names an account.
func (e Endpoint) TakesMutualTLS() bool {
	if mode, said := e.Labels[tlsModeLabel]; said {
		return mode == "istio"
	}
	return e.Proxied
}

// Locality is the place of a workload or proxy, from the widest part to the narrowest. Empty parts are unknown.
type Locality struct{ Region, Zone, SubZone string }

// ParseLocality reads "region/zone/subzone"; parts at the end may be missing.
func ParseLocality(s string) Locality {
	parts := append(strings.SplitN(s, "/", 3), "", "")
	return Locality{parts[0], parts[1], parts[2]}
}

// String returns the form that ParseLocality reads, without unknown parts at the end.
func (l Locality) String() string {
	return strings.TrimRight(l.Region+"/"+l.Zone+"/"+l.SubZone, "/")
}

// Resolution defines how the endpoints of a service are found: by the control plane, or by Envoy.
type Resolution string

const (
	ResolutionStatic        Resolution = "STATIC"          // the endpoints are addresses, served by EDS
	ResolutionDNS           Resolution = "DNS"             // Envoy resolves every name; each address is an endpoint
	ResolutionDNSRoundRobin Resolution = "DNS_ROUND_ROBIN" // Envoy resolves one name, and connects to its first address
	ResolutionNone          Resolution = "NONE"            // Envoy connects to the address that the client dialled
)

// IsDNS reports whether Envoy resolves names.
func (r Resolution) IsDNS() bool { return r == ResolutionDNS || r == ResolutionDNSRoundRobin }
