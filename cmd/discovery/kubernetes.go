package main

import (
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/version"
)

func (s *settings) kubernetes() []setting.Setting {
	return []setting.Setting{
		{
			Name: "kubeconfig", Kind: setting.Path(&s.Cluster.Access.File),
			Help: "kubeconfig file of the API server of --registries Kubernetes, --kubernetesConfig, --meshConfigMap and the webhooks; if empty, that of the cluster " +
				"whose Pod this is",
		},
		{Name: "kubeContext", Kind: setting.Text(&s.Cluster.Access.Context, "a context of --kubeconfig"), Help: "context of --kubeconfig; if empty, its current one"},
		{
			Name: "clusterID", Default: "Kubernetes", Kind: setting.Name(&s.Cluster.ID, "a name"),
			Help: "name of the cluster: the CLUSTER_ID of its proxies, and the cluster of its endpoints",
		},
		{
			Name: "appNamespace", Kind: setting.List(&s.Cluster.Namespaces),
			Help: "namespaces whose Services, Pods and Istio objects count; if empty, all",
		},
		{
			Name: "kubernetesConfig", Default: "false", Kind: setting.Bool(&s.Cluster.Objects),
			Help: "serve the Istio objects of the API server, beside those of --configDir; kinds whose definitions come later are served from then on",
		},
		{
			Name: "meshConfigMap", Kind: object(&s.Cluster.Settings),
			Help: "ConfigMap of the mesh's settings, as NAMESPACE/NAME: MeshConfig in its key mesh, MeshNetworks in meshNetworks; read again when it changes",
		},
		{
			Name: "clusterRegistriesNamespace", Kind: setting.Text(&s.Cluster.Kubeconfig, "a namespace"),
			Help: "namespace of the Secrets with the label istio/multiCluster=true, whose kubeconfigs are further clusters of --registries Kubernetes, by name; " +
				"if empty, that of this Pod, and without --kubeconfig only. A kubeconfig that would run a program or read a file is refused",
		},
	}
}

// object is the kind of the namespace and name of an object.
func object(to *plane.Name) setting.Kind {
	return setting.Parsed(to, "name", "NAMESPACE/NAME", plane.ParseName)
}

func userAgent() string { return "pilotlight-discovery/" + version.Get().Version }
