// Package catalog converts Kubernetes' objects from any source to services and workloads.
//
//	Put, Delete ── Service, EndpointSlice, Pod, Node, Namespace ──▶ Catalog ── Changes ──▶ the groups that changed, by key
//
//	Service/NAMESPACE/NAME    one model.Service: the Service with the endpoints of all its EndpointSlices
//	Pod/NAMESPACE/NAME        one model.Workload
//
// Objects may come in any order. A service has an endpoint as soon as a slice lists it; its labels, service account and
// locality are added when its Pod and its Node have come. A slice names the Pod of an endpoint by name and UID, so that
// the old Pod's endpoint gets no labels of a new Pod with the same name or address.
//
// A Service with a fault in its ports, addresses or annotations keeps its last good form, with its present endpoints.
//
// The package does not read, watch or log, and has no clock, no goroutine and no client. Ports of SCTP, and
// EndpointSlices of other objects than Services, are left out. A Catalog is for one goroutine.
package catalog
