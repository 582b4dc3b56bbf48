package content

// Kind is a type of resource, in the order in which pages show them.
type Kind int

// The kinds. Kinds is their number.
const (
	CDS Kind = iota
	EDS
	LDS
	RDS
	SDS
	NDS // Istio's name table
	Kinds
)

// Order returns the order in which responses are sent. Clusters and listeners do not get warm without their secrets. A
// name resolves to an address that a listener serves.
func Order() [Kinds]Kind { return [Kinds]Kind{CDS, EDS, SDS, LDS, RDS, NDS} }

// The types of resources of each kind.
const (
	ClusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	SecretType   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	ListenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	NamesType    = "type.googleapis.com/istio.networking.nds.v1.NameTable"
)

// TypeURL is the name of the type in requests and responses.
func (k Kind) TypeURL() string {
	return [Kinds]string{
		CDS: ClusterType, EDS: EndpointType, SDS: SecretType, LDS: ListenerType, RDS: RouteType, NDS: NamesType,
	}[k]
}

// String is the short name that metrics and logs have.
func (k Kind) String() string { return [Kinds]string{"cds", "eds", "lds", "rds", "sds", "nds"}[k] }

// KindOf returns the kind of a type, and whether it is served.
func KindOf(typeURL string) (Kind, bool) {
	for k := range Kinds {
		if k.TypeURL() == typeURL {
			return k, true
		}
	}
	return 0, false
}

// Whole reports whether a response in the state of the world carries all resources of the kind, so that absence
// deletes. For the other kinds it carries the changed resources, and deletion follows from the listener or cluster that
// named them. Only kinds that are whole can be subscribed to without names.
func (k Kind) Whole() bool { return k == CDS || k == LDS || k == NDS }

// Asked reports whether the set of k is made for a stream only after the stream has requested k.
func (k Kind) Asked() bool { return k == SDS || k == NDS }

// Variant is how changes are sent.
type Variant int

// The variants. Variants is their number.
const (
	SotW  Variant = iota // the state of the world
	Delta                // changed resources, and names of removed ones
	Variants
)

// String is the name that pages and metrics show.
func (v Variant) String() string { return [Variants]string{"sotw", "delta"}[v] }
