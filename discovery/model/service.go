package model

import (
	"slices"
	"strings"
	"time"
)

// Service is one host that the mesh can call, as a registry knows it.
type Service struct {
	Registry string // that knows it, such as Kubernetes; "" for a ServiceEntry
	Cluster  string // of the registry
	Origin   Origin // where the registry has it; a ServiceEntry's is its object's

	Host       string // lower case, fully qualified; "*.example.com" for a wildcard
	Namespace  string // where it was declared
	Name       string // of the object that declares it, "" where there is none
	Created    time.Time
	Resolution Resolution
	External   bool     // outside the mesh
	Headless   bool     // without an address of its own: clients dial the endpoints
	Checked    bool     // its registry knows which endpoints are healthy: the others get requests only where none is
	NodeLocal  bool     // a proxy that says its node gets the endpoints there, and no others
	Prefer     Prefer   // which endpoints get requests first, unless a DestinationRule says it
	Addresses  []string // its own, IP addresses or CIDRs; none where clients dial what its name resolves to
	Ports      []Port
	Endpoints  []Endpoint

	// ClusterAddresses are the addresses that other clusters than the owner's give it, by cluster: see AddressesIn. The union
	// of registries sets it.
	ClusterAddresses map[string][]string

	// Selector adds the workloads of the service's namespace with these labels to Endpoints, except those of its own
	// registry. Empty adds none.
	Selector map[string]string

	// Ignored are what its record says and nothing is made of, a sentence for each.
	Ignored []string

	ExportTo        []string // namespaces that see it, "." its own, "*" or empty every, "~" none
	SubjectAltNames []string // of its certificates
	Accounts        []string // NAMESPACE/NAME of service accounts, whose names are of its certificates too, in each trust domain
}

// Port returns the port of that number; false where the service has none.
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
	Target   uint32 // that endpoints listen on unless they say otherwise; 0 for Number
	Protocol Protocol
}

// Endpoint is one address that serves a service.
type Endpoint struct {
	Address  string            // an IP address, a DNS name where Envoy resolves it, or unix:///path
	Ports    map[string]uint32 // port name → the port it listens on, where it differs from the service's
	Labels   map[string]string // subsets select by them
	Weight   uint32            // relative to the others; 0 means 1
	Locality Locality
	Network  string // where the address is reachable; "" for the mesh's own
	Partial  bool   // it serves the ports that Ports names, and no others

	Cluster        string // where it runs
	ServiceAccount string // that it runs as, in the namespace of its service
	Health         Health
	Node           string // that it runs on; only where its service is NodeLocal or prefers the node
}

// Prefer is how near an endpoint must be to get requests before others: Kubernetes' trafficDistribution.
type Prefer uint8

const (
	PreferNone Prefer = iota // as policies say
	PreferZone               // of the proxy's zone, then of its region
	PreferNode               // of the proxy's node, then of its zone and its region
)

// readsNode reports whether the node that a proxy runs on decides which endpoints it gets.
func (s *Service) readsNode() bool { return s.NodeLocal || s.Prefer == PreferNode }

// PortOn returns the number that the endpoint serves p on, 0 where it does not.
func (e Endpoint) PortOn(p Port) uint32 {
	if n, ok := e.Ports[p.Name]; ok || e.Partial {
		return n
	}
	if p.Target != 0 {
		return p.Target
	}
	return p.Number
}

// Locality is where something runs, from the widest to the narrowest. Empty parts are not known.
type Locality struct{ Region, Zone, SubZone string }

// ParseLocality reads "region/zone/subzone", of which the end may be missing.
func ParseLocality(s string) Locality {
	parts := append(strings.SplitN(s, "/", 3), "", "")
	return Locality{parts[0], parts[1], parts[2]}
}

// String is the form that ParseLocality reads, without what is not known at its end.
func (l Locality) String() string {
	return strings.TrimRight(l.Region+"/"+l.Zone+"/"+l.SubZone, "/")
}

// Resolution is how a service's endpoints are found: by the control plane, or by Envoy.
type Resolution string

const (
	ResolutionStatic        Resolution = "STATIC"          // the endpoints are addresses, served by EDS
	ResolutionDNS           Resolution = "DNS"             // Envoy resolves each endpoint's name, every address is one
	ResolutionDNSRoundRobin Resolution = "DNS_ROUND_ROBIN" // Envoy resolves one name, and connects to its first address
	ResolutionNone          Resolution = "NONE"            // Envoy connects to the address that the client dialled
)

// IsDNS reports whether Envoy resolves names.
func (r Resolution) IsDNS() bool { return r == ResolutionDNS || r == ResolutionDNSRoundRobin }
