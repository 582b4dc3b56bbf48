package ads

// kind is a type of resource, in the order in which pages show them.
type kind int

const (
	cds kind = iota
	eds
	lds
	rds
	sds
	nds
	kinds
)

// order returns the order in which responses are sent. Clusters and listeners do not get warm without their secrets. A
// name resolves to an address that a listener serves.
func order() [kinds]kind { return [kinds]kind{cds, eds, sds, lds, rds, nds} }

const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpointType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	secretType   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	routeType    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	namesType    = "type.googleapis.com/istio.networking.nds.v1.NameTable"
)

func (k kind) typeURL() string {
	return [kinds]string{
		cds: clusterType, eds: endpointType, sds: secretType, lds: listenerType, rds: routeType, nds: namesType,
	}[k]
}

// String is the short name that metrics and logs have.
func (k kind) String() string { return [kinds]string{"cds", "eds", "lds", "rds", "sds", "nds"}[k] }

func kindOf(typeURL string) (kind, bool) {
	for k := range kinds {
		if k.typeURL() == typeURL {
			return k, true
		}
	}
	return 0, false
}

// whole reports whether a response in the state of the world carries all resources of the kind, so that absence
// deletes. For the other kinds it carries the changed resources, and deletion follows from the listener or cluster that
// named them. Only kinds that are whole can be subscribed to without names.
func (k kind) whole() bool { return k == cds || k == lds || k == nds }

// asked reports whether the set of k is made for a stream only after the stream has requested k.
func (k kind) asked() bool { return k == sds || k == nds }

// variant is how changes are sent.
type variant int

const (
	sotw  variant = iota // the state of the world
	delta                // changed resources, and names of removed ones
	variants
)

func (v variant) String() string { return [variants]string{"sotw", "delta"}[v] }
