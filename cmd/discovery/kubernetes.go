package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/version"
)

// cluster is a Kubernetes cluster: its address, and the data that are read from it.
type cluster struct {
	access     kube.Access
	id         string
	namespaces []string // empty for all
	config     bool     // its Istio objects
	registries string   // namespace of the Secrets with kubeconfigs of other clusters; empty for that of this Pod
	settings   string   // NAMESPACE/NAME of the ConfigMap of the mesh's settings; empty for none
	writes     bool     // the status of its Istio objects
	lease      lease
}

func (s *settings) kubernetes() []setting.Setting {
	return []setting.Setting{
		{
			Name: "kubeconfig", Kind: setting.Path(&s.cluster.access.File),
			Help: "kubeconfig file of the API server of --registries Kubernetes, --kubernetesConfig, --meshConfigMap and the webhooks; if empty, that of the cluster " +
				"whose Pod this is",
		},
		{Name: "kubeContext", Kind: setting.Text(&s.cluster.access.Context, "a context of --kubeconfig"), Help: "context of --kubeconfig; if empty, its current one"},
		{
			Name: "clusterID", Default: "Kubernetes", Kind: setting.Name(&s.cluster.id, "a name"),
			Help: "name of the cluster: the CLUSTER_ID of its proxies, and the cluster of its endpoints",
		},
		{
			Name: "appNamespace", Kind: setting.List(&s.cluster.namespaces),
			Help: "namespaces whose Services, Pods and Istio objects count; if empty, all",
		},
		{
			Name: "kubernetesConfig", Default: "false", Kind: setting.Bool(&s.cluster.config),
			Help: "serve the Istio objects of the API server, beside those of --configDir; kinds whose definitions come later are served from then on",
		},
		{
			Name: "meshConfigMap", Kind: setting.Text(&s.cluster.settings, "NAMESPACE/NAME"),
			Help: "ConfigMap of the mesh's settings, as NAMESPACE/NAME: MeshConfig in its key mesh, MeshNetworks in meshNetworks; read again when it changes",
		},
	}
}

// clusterFaults returns the faults of these settings.
func (s *settings) clusterFaults() (faults []error) {
	c := s.cluster
	used := c.config || len(s.gatewaySecrets) > 0 || s.webhooks.used() || c.settings != "" || s.meshConfig != "" || s.inCluster()
	if c.access.File != "" && !used {
		faults = append(faults, errors.New("--kubeconfig is given, and none of --registries Kubernetes, --kubernetesConfig, --meshConfigMap, --meshConfig and a webhook configuration"))
	}
	if c.access.Context != "" && c.access.File == "" {
		faults = append(faults, errors.New("--kubeContext is given without --kubeconfig"))
	}
	if c.registries != "" && !s.inCluster() {
		faults = append(faults, errors.New("--clusterRegistriesNamespace is given, and --registries does not name Kubernetes"))
	}
	if c.settings != "" && !twoNames(c.settings) {
		faults = append(faults, s.origins.Fault("meshConfigMap", c.settings, "NAMESPACE/NAME"))
	}
	for _, file := range []struct{ name, path string }{{"meshConfig", s.meshConfig}, {"networksConfig", s.networksConfig}} {
		if file.path != "" && c.settings != "" {
			faults = append(faults, fmt.Errorf("--%s and --meshConfigMap are both given, want one of them", file.name))
		}
	}
	return faults
}

// inCluster reports whether the Services of the cluster are served.
func (s *settings) inCluster() bool { return slices.Contains(s.registries, plane.Kubernetes) }

func userAgent() string { return "pilotlight-discovery/" + version.Get().Version }

// served returns what is read from the cluster. pod is the namespace of this Pod, "" outside of one: the Secrets of other
// clusters are read there unless another namespace, or a kubeconfig, is given.
func (c cluster) served(pod string) plane.Cluster {
	access, registries := c.access, c.registries
	access.UserAgent = userAgent()
	if registries == "" && access.File == "" {
		registries = pod
	}
	return plane.Cluster{
		Access: access, ID: c.id, Namespaces: c.namespaces, Objects: c.config, Settings: nameOf(c.settings), Kubeconfig: registries,
		Statuses: c.writes, Lease: plane.Name{Namespace: cmp.Or(c.lease.namespace, pod, "istio-system"), Name: c.lease.name},
	}
}
