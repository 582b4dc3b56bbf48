package plane

import (
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/cloudfoundry"
	"github.com/pilotlight/pilotlight/discovery/registry/consul"
	"github.com/pilotlight/pilotlight/discovery/registry/eureka"
	"github.com/pilotlight/pilotlight/discovery/registry/manifest"
	"github.com/pilotlight/pilotlight/discovery/registry/mock"
	"github.com/pilotlight/pilotlight/discovery/secret"
	secretfile "github.com/pilotlight/pilotlight/discovery/secret/file"
)

// Kubernetes is the registry of the Cluster.
const Kubernetes = "Kubernetes"

// registries make the sources of the registries, by their names, which are pilot-discovery's.
func registries() map[string]func(Config) discovery.Source {
	return map[string]func(Config) discovery.Source{
		"CloudFoundry": func(c Config) discovery.Source { return c.CloudFoundry.source(c.Domains.ofCloudFoundry(c.Domain)) },
		"Consul": func(c Config) discovery.Source {
			from := c.Consul
			from.Domains = lower(c.Domains.Consul)
			return &consul.Source{Config: from, Log: c.Log.With("source", "Consul")}
		},
		"Eureka": func(c Config) discovery.Source {
			from := c.Eureka
			from.Grant = c.Domains.ofEureka(c.Domain)
			return eureka.New(from, c.Log.With("source", "Eureka"))
		},
		Kubernetes: func(c Config) discovery.Source { return c.Cluster.services(c.Domain) },
		"Mock": func(c Config) discovery.Source {
			return mock.Source{Registry: mock.New(mock.HelloWorld()...), Domain: c.Domain}
		},
	}
}

// Registries returns the names of the registries that Config.Registries may have, ordered.
func Registries() []string { return slices.Sorted(maps.Keys(registries())) }

// objectsName is the source of the cluster's objects.
const objectsName = "kubernetesConfig"

// inCluster reports whether the Services of the Cluster are served.
func (c Config) inCluster() bool { return slices.Contains(c.Registries, Kubernetes) }

// sources returns the sources of services and configuration that the server starts with, by name: registries, stores of
// objects, and settings of the mesh.
func (c Config) sources(store *file.Source, objects discovery.Source) map[string]discovery.Source {
	out := map[string]discovery.Source{}
	for _, name := range c.Registries {
		out[name] = registries()[name](c)
	}
	if c.ConfigDir != "" {
		out["config"] = store
	}
	if c.Cluster.Objects {
		out[objectsName] = objects
	}
	if settings := c.Cluster.settings(c.Log); settings != nil {
		out["meshConfigMap"] = settings
	}
	if c.MeshConfig != "" {
		out["meshConfig"] = file.NewSettings("MeshConfig", c.MeshConfig, c.Log)
	}
	if c.NetworksConfig != "" {
		out["networksConfig"] = file.NewSettings("MeshNetworks", c.NetworksConfig, c.Log)
	}
	return out
}

// newStore returns the store of a directory, which reads Kubernetes' objects of a cluster with the domain, beside
// Istio's. ingresses is nil if Ingresses are not served.
func newStore(dir string, d model.Domain, wipeDelay time.Duration, ingresses manifest.Ingresses, log *slog.Logger) *file.Source {
	store := file.New(dir, wipeDelay, log)
	store.Manifests = func() file.Manifests { return manifest.New(d, ingresses) }
	return store
}

// files returns the source of ConfigDir. It feeds Ingresses only if it runs: these wait for each of their stores.
func (c Config) files(i *ingresses) *file.Source {
	if c.ConfigDir == "" {
		i = nil
	}
	return newStore(c.ConfigDir, c.Domain, c.Patience.Wipe, i.feed("config"), c.Log)
}

// secretSources returns the sources of secrets, by name, and that of SecretsDir, nil for none.
func (c Config) secretSources() (all map[string]secret.Source, dir *secretfile.Source) {
	all = map[string]secret.Source{}
	if c.SecretsDir != "" {
		dir = secretfile.New(c.SecretsDir, c.Log)
		all["secretsDir"] = dir
	}
	return all, dir
}

func (c CloudFoundry) source(hosts model.Grant) discovery.Source {
	id, err := os.Hostname()
	if err != nil {
		id = "discovery"
	}
	return cloudfoundry.New(c.Broker, "pilotlight-"+id, netip.Addr{}, hosts, c.Interval, c.Threshold)
}

// collectors returns the sources that have metrics of their own.
func collectors(sources map[string]discovery.Source) (out []prometheus.Collector) {
	for _, s := range sources {
		if c, counts := s.(prometheus.Collector); counts {
			out = append(out, c)
		}
	}
	return out
}
