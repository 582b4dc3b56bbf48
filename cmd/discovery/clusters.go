package main

import (
	"os"
	"strings"

	"github.com/pilotlight/pilotlight/internal/setting"
)

// podNamespace returns the namespace of this Pod; "" outside of a Pod.
func podNamespace() string {
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (s *settings) clusters() []setting.Setting {
	return []setting.Setting{{
		Name: "clusterRegistriesNamespace", Kind: setting.Text(&s.cluster.registries, "a namespace"),
		Help: "namespace of the Secrets with the label istio/multiCluster=true, whose kubeconfigs are further clusters of --registries Kubernetes, by name; " +
			"if empty, that of this Pod, and without --kubeconfig only. A kubeconfig that would run a program or read a file is refused",
	}}
}
