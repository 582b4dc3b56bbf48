// Package k8s stands in for the provider that finds servers in a Kubernetes cluster.
package k8s
