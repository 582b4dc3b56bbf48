// Package manifest makes services and workloads from Kubernetes' objects in files, as kubectl applies and prints them.
// So a directory of manifests written for a cluster is served without a cluster.
//
//	file store ── Put, Delete: object as JSON ──▶ Manifests ── Kubernetes' types ──▶ controllers ──▶ catalog ── Changes ──▶ groups
//
// In a cluster, controllers make further objects from those that users write. Here package manifest does their work, as
// far as files contain enough (see served in controller.go):
//
//   - Endpoints are served as EndpointSlices are.
//   - A Service without either has the Pods that it selects as endpoints.
//   - A target port that has a name is the port of that name of the Pods that the Service selects, and of their Deployments.
//   - An endpoint whose Pod is in no file has the labels and the service account of its Deployment, if only one
//     Deployment is possible.
//   - A Deployment, StatefulSet, DaemonSet or ReplicaSet is a template (model.NewTemplate): it has no addresses.
//
// Ingresses and IngressClasses are passed on, with the Services of the files: discovery/ingress interprets them.
//
// The package does not read files, and has no clock and no goroutine. Of the defaults of an API server it applies only
// those of the catalog.
package manifest
