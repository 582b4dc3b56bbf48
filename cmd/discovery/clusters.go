package main

import (
	"os"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	services "github.com/pilotlight/pilotlight/discovery/registry/kubernetes"
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

// others returns the source of the further clusters, nil for none.
func (s *settings) others(server *discovery.Server) discovery.Source {
	c := s.cluster
	namespace := c.registries
	if namespace == "" && c.access.File == "" {
		namespace = podNamespace()
	}
	if namespace == "" || !slices.Contains(s.registries, kubernetesRegistry) {
		return nil
	}
	of := func(cluster string) string { return kubernetesRegistry + "/" + cluster }
	return &services.Clusters{
		Connect: c.connect, Namespace: namespace, Own: c.id, UserAgent: userAgent(),
		Add:    func(cluster string, source services.Source) { server.Add(of(cluster), source) },
		Remove: func(cluster string) { server.Remove(of(cluster)) },
		Source: services.Source{Namespaces: c.namespaces, Options: catalog.Options{Domain: s.domain}},
	}
}
