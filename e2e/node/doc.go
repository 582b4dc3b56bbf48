// Package node tests pilotlight on a real node of Kubernetes: a kubelet that starts containers, and all parts of a control
// plane. envoy-tools/fetch-node builds them, from the versions that e2e/kube/parts and parts pin.
//
//	etcd ◀── kube-apiserver ◀── controller manager, scheduler, kube-proxy
//	               ▲
//	               ├── kubelet ──▶ containerd ──▶ runc ──▶ the Pods: discovery, gateways, the bookinfo with its sidecars
//	               └── kubectl, as docs/kubernetes.md has it
//
// The node is in namespaces of the test's own, of networks, mounts and processes: whatever it has started ends with them. Its
// control groups are below one of its own, which the test removes. dnsmasq answers for the cluster's DNS.
//
// The tests are behind the build tag node, need root, and are run by make e2e-node. The package does not test what needs no
// kubelet: e2e/kube does.
package node
