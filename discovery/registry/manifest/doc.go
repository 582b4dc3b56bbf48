// Package manifest makes services and workloads of Kubernetes' objects that stand in files: Service, EndpointSlice, Pod, Node and
// Namespace, as kubectl applies and prints them. So the directory of somebody with a cluster is served without one.
//
//	file store ── Put, Delete: object as JSON ──▶ Manifests ── Kubernetes' types ──▶ catalog ── Changes ──▶ groups
//
// The package does not read files, and has no clock and no goroutine. It knows no defaults of an API server but the catalog's.
package manifest
