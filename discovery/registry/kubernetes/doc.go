// Package kubernetes is the registry of a Kubernetes cluster: its Services with their EndpointSlices, and its Pods.
//
//	kube.Client.Follow ── Services, EndpointSlices, Pods, Nodes, the system's Namespace ──▶ catalog.Catalog ──▶ Update: the groups that changed
//
// A group is a Service with its endpoints, or a Pod as a workload. The source syncs when it has lists of all kinds, so
// no endpoint is sent without the data of its Pod and its Node. While the API server cannot be reached, nothing
// changes: Run continues for kube.Patience, then it returns the error, and the server starts it again and shows the
// error until it has synced.
//
// The package reads only what it needs to get, list and watch these kinds, and writes nothing. discovery/kube/catalog
// interprets them.
package kubernetes
