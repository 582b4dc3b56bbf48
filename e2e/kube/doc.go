// Package kube tests pilotlight against the API server of Kubernetes, which stores what it has in etcd. Both are built by
// envoy-tools/fetch-kube, from the versions that parts pins. deploy/kubernetes is applied to them by kubectl.
//
//	etcd ◀── kube-apiserver ◀── discovery ──▶ agent ──▶ Envoy
//	               ▲
//	               └── the tests, by server-side apply
//
// There is no controller, scheduler or kubelet: the tests write EndpointSlices and the status of Pods themselves. Each cluster
// stands in a network namespace of its own, where all addresses of Pods lead to loopback.
//
// The tests are behind the build tag kube and run by make e2e-kube. The package leaves to e2e what Envoy makes of
// our configuration, and to e2e/pod how a Pod's traffic is redirected.
package kube
