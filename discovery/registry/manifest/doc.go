// Package manifest makes services and workloads of Kubernetes' objects that stand in files, as kubectl applies and prints them. So the
// directory of somebody with a cluster is served without one.
//
//	file store ── Put, Delete: object as JSON ──▶ Manifests ── Kubernetes' types ──▶ controllers ──▶ catalog ── Changes ──▶ groups
//
// In a cluster controllers stand between what people write and what is served. Here package manifest does their part of it, as far
// as files say enough (see served in controller.go):
//
//   - Endpoints are served as EndpointSlices are.
//   - A Service without either has the Pods that it selects as endpoints.
//   - A target port that has a name is the port of that name of the Pods that the Service selects, and of their Deployments.
//   - An endpoint whose Pod is in no file has the labels and the service account of its Deployment, where it is clear which one that is.
//   - A Deployment, StatefulSet, DaemonSet or ReplicaSet is a template (model.NewTemplate): it has no addresses.
//
// The package does not read files, and has no clock and no goroutine. It knows no defaults of an API server but the catalog's.
package manifest
