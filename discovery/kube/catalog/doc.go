// Package catalog makes services and workloads of Kubernetes' objects, wherever they come from.
//
//	Put, Delete ── Service, EndpointSlice, Pod, Node, Namespace ──▶ Catalog ── Changes ──▶ the groups that changed, by key
//
//	Service/NAMESPACE/NAME    one model.Service: what the Service says, with the endpoints of all its EndpointSlices
//	Pod/NAMESPACE/NAME        one model.Workload
//
// Objects may come in any order. An endpoint is there as soon as a slice lists it; its labels, service account and locality
// follow when its Pod and its Node are known. A slice names the Pod of an endpoint by name and UID, so that a new Pod with
// the name or the address of an old one lends nothing to the old one's endpoint.
//
// A Service with a fault in its ports, addresses or annotations keeps its last good form, with the endpoints of now.
//
// The package does not read, watch or log, has no clock and no goroutine, and does not know what a client is. Ports of SCTP, and
// EndpointSlices of other objects than Services, are left out. One Catalog is for one goroutine.
package catalog
