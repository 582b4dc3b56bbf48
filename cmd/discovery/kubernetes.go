package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	"github.com/pilotlight/pilotlight/discovery/model"
	services "github.com/pilotlight/pilotlight/discovery/registry/kubernetes"
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
	receiver   *configs.Statuses // receives the objects from their source; nil for none
}

const kubernetesRegistry = "Kubernetes"

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
	used := c.config || len(s.gatewaySecrets) > 0 || s.webhooks.used() || c.settings != "" || s.meshConfig != "" || slices.Contains(s.registries, kubernetesRegistry)
	if c.access.File != "" && !used {
		faults = append(faults, errors.New("--kubeconfig is given, and none of --registries Kubernetes, --kubernetesConfig, --meshConfigMap, --meshConfig and a webhook configuration"))
	}
	if c.access.Context != "" && c.access.File == "" {
		faults = append(faults, errors.New("--kubeContext is given without --kubeconfig"))
	}
	if c.registries != "" && !slices.Contains(s.registries, kubernetesRegistry) {
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

// services returns the registry of the cluster.
func (c cluster) services(d model.Domain) discovery.Source {
	return services.Source{Connect: c.connect, Namespaces: c.namespaces, Options: catalog.Options{Cluster: c.id, Domain: d}}
}

func (c cluster) connect() (*kube.Client, error) {
	c.access.UserAgent = userAgent()
	return c.access.Client()
}

func userAgent() string { return "pilotlight-discovery/" + version.Get().Version }

// objects returns the source of the cluster's Istio objects.
func (c cluster) objects(log *slog.Logger) discovery.Source {
	return configs.Source{Connect: c.connect, Cluster: c.id, Namespaces: c.namespaces, Statuses: c.receiver, Log: log}
}

// store returns the source for k8s://PLACE in MeshConfig's configSources: the objects of this cluster, unless they are
// served already.
func (c cluster) store(place string, log *slog.Logger) discovery.Source {
	switch {
	case place != "":
		return noStore("k8s://" + place + " is no cluster that is known here, want k8s:// for the one of --kubeconfig")
	case c.config:
		return noStore("")
	default:
		return c.objects(log)
	}
}

// noStore is a source without objects, and the reason; "" if there is no fault.
type noStore string

func (n noStore) Run(context.Context, chan<- model.Update) error {
	if n != "" {
		return errors.New(string(n))
	}
	return nil
}

// stores returns the sources of the cluster's configuration, by name.
func (c cluster) stores(log *slog.Logger) map[string]discovery.Source {
	out := map[string]discovery.Source{}
	if c.config {
		out["kubernetesConfig"] = c.objects(log)
	}
	if namespace, name, found := strings.Cut(c.settings, "/"); found {
		out["meshConfigMap"] = configs.Settings{Connect: c.connect, Cluster: c.id, Namespace: namespace, Name: name, Log: log}
	}
	return out
}
