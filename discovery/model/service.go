package model

import (
	"slices"
	"strings"
	"time"
)

// Service is one host that workloads of the mesh can call, as a registry describes it.
type Service struct {
	Registry string `json:"Registry"` // the registry that has it, such as Kubernetes; "" for a ServiceEntry
	Cluster  string `json:"Cluster"`  // of the registry
	Origin   Origin `json:"Origin"`   // its record in the registry; for a ServiceEntry see the object

	Right      Right      `json:"Right"`     // to the host: RightFull, unless anybody may write to the registry
	Host       string     `json:"Host"`      // lower case, fully qualified; "*.example.com" for a wildcard
	Namespace  string     `json:"Namespace"` // of its declaration
	Name       string     `json:"Name"`      // of the object that declares it, "" if there is none
	Created    time.Time  `json:"Created"`
	Resolution Resolution `json:"Resolution"`
	External   bool       `json:"External"`  // outside the mesh
	Headless   bool       `json:"Headless"`  // without an address of its own: clients dial the endpoints
	NodeLocal  bool       `json:"NodeLocal"` // a proxy whose node is known uses only the endpoints on its node
	Prefer     Prefer     `json:"Prefer"`    // which endpoints are preferred, unless a DestinationRule configures it
	// Addresses are its own, IP addresses or CIDRs; none if clients connect to the addresses that its name resolves to
	Addresses []string   `json:"Addresses"`
	Ports     []Port     `json:"Ports"`
	Endpoints []Endpoint `json:"Endpoints"`

	// ClusterAddresses are the addresses of the service in clusters that give it other addresses than the owner's
	// cluster, by cluster: see AddressesIn. They are set when declarations are joined (union.go).
	ClusterAddresses map[string][]string `json:"ClusterAddresses"`

	// ExternalName is a host of which this is only another name; "" for none. It is the address of the one endpoint too
	ExternalName string `json:"ExternalName"`
	// AliasOf is the service to which that leads, "" for none. The mesh sets it, see alias.go
	AliasOf string   `json:"AliasOf"`
	Aliases []string `json:"Aliases"` // the hosts that lead to this service so, sorted. The mesh sets them

	// Selector adds the workloads of the service's namespace with these labels to Endpoints, except those of its own
	// registry. Empty adds none.
	Selector map[string]string `json:"Selector"`

	// Ignored describes the settings of its record that have no effect, one sentence for each.
	Ignored []string `json:"Ignored"`

	// ExportTo are the namespaces that see it: "." is its own, "*" or an empty list every one, "~" none
	ExportTo        []string `json:"ExportTo"`
	SubjectAltNames []string `json:"SubjectAltNames"` // of its certificates
	// Accounts are NAMESPACE/NAME of service accounts, whose names its certificates may have, see Settings.Subjects
	Accounts []string `json:"Accounts"`
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
	Name     string   `json:"Name"`   // unique within the service
	Number   uint32   `json:"Number"` // as clients dial it
	Target   uint32   `json:"Target"` // that endpoints listen on unless they set their own; 0 for Number
	Protocol Protocol `json:"Protocol"`
}

// Endpoint is one address of a service.
type Endpoint struct {
	Address string `json:"Address"` // an IP address, a DNS name where Envoy resolves it, or unix:///path
	// Ports are port name → the port it listens on, where it differs from the service's
	Ports    map[string]uint32 `json:"Ports"`
	Labels   map[string]string `json:"Labels"` // subsets select by them
	Weight   uint32            `json:"Weight"` // relative to the others; 0 means 1
	Locality Locality          `json:"Locality"`
	Network  string            `json:"Network"` // from which the address is reachable; "" for the mesh's own
	Partial  bool              `json:"Partial"` // it serves only the ports in Ports

	Cluster        string `json:"Cluster"`        // that it runs in
	ServiceAccount string `json:"ServiceAccount"` // that it runs as, in the namespace of its service
	Proxied        bool   `json:"Proxied"`        // its declaration says that it has a sidecar: see TakesMutualTLS
	Health         Health `json:"Health"`
	Hostname       string `json:"Hostname"` // the label of its own name below a headless service's host; "" for none
	Node           string `json:"Node"`     // that it runs on; only set if its service is NodeLocal or prefers the node
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
type Locality struct {
	Region  string `json:"Region"`
	Zone    string `json:"Zone"`
	SubZone string `json:"SubZone"`
}

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
