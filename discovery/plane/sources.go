package plane

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/cloudfoundry"
	"github.com/pilotlight/pilotlight/discovery/registry/consul"
	"github.com/pilotlight/pilotlight/discovery/registry/eureka"
	services "github.com/pilotlight/pilotlight/discovery/registry/kubernetes"
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

func (c Cluster) connect() (*kube.Client, error) { return c.Access.Client() }

// services returns the registry of the cluster.
func (c Cluster) services(d model.Domain) discovery.Source {
	return services.Source{Connect: c.connect, Namespaces: c.Namespaces, Options: catalog.Options{Cluster: c.ID, Domain: d}}
}

// objects returns the source of the cluster's Istio objects, which sends them to receiver too; nil for none.
func (c Cluster) objects(receiver *configs.Statuses, begin func(context.Context, *kube.Client) error, log *slog.Logger) discovery.Source {
	return configs.Source{Connect: c.connect, Cluster: c.ID, Namespaces: c.Namespaces, Statuses: receiver, Begin: begin, Log: log}
}

// settings returns the source of the mesh's settings in the cluster, nil for none.
func (c Cluster) settings(log *slog.Logger) discovery.Source {
	if c.Settings == (Name{}) {
		return nil
	}
	return configs.Settings{Connect: c.connect, Cluster: c.ID, Namespace: c.Settings.Namespace, Name: c.Settings.Name, Log: log}
}

// statuses returns the writer of the statuses of the cluster's objects; nil if they are not written.
func (c Cluster) statuses(replica string, log *slog.Logger) *configs.Statuses {
	if !c.Statuses {
		return nil
	}
	return &configs.Statuses{Cluster: c.ID, Instance: replica, Log: log}
}

// podEvents returns the writer of Events of the cluster's Pods; nil if they are not written, or its Pods are not known.
func (c Config) podEvents() *configs.PodEvents {
	if !c.Cluster.Statuses || !c.inCluster() {
		return nil
	}
	return &configs.PodEvents{Cluster: c.Cluster.ID, Instance: c.Replica, Log: c.Log}
}

func (c Cluster) election(replica string, log *slog.Logger) *kube.Election {
	return &kube.Election{Connect: c.connect, Namespace: c.Lease.Namespace, Name: c.Lease.Name, Identity: replica, Log: log}
}

// remote is the name of the source of another cluster.
func remote(cluster string) string { return Kubernetes + "/" + cluster }

// others returns the source of the further clusters, which it adds to a server; nil for none.
func (c Config) others(server *discovery.Server) discovery.Source {
	own := c.Cluster
	if own.Kubeconfig == "" || !c.inCluster() {
		return nil
	}
	return &services.Clusters{
		Connect: own.connect, Namespace: own.Kubeconfig, Own: own.ID, UserAgent: own.Access.UserAgent,
		Add:    func(cluster string, source services.Source) { server.Add(remote(cluster), source) },
		Remove: func(cluster string) { server.Remove(remote(cluster)) },
		Source: services.Source{Namespaces: own.Namespaces, Options: catalog.Options{Domain: c.Domain}},
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

// configSources are the sources in MeshConfig's configSources, which change with its file.
type configSources struct {
	open   func(config.ConfigSource) (discovery.Source, *file.Source) // the second one is nil unless the source is a store of files
	add    func(name string, source discovery.Source)
	remove func(name string)
	log    *slog.Logger

	mu      sync.Mutex
	running map[string]config.ConfigSource // by URL, which is the source's name
	stores  map[string]*file.Source        // the stores of files
}

// plan returns the sources to start, and the names of those to stop, so that the wanted ones run, and no others. One
// whose TLS has changed starts again, in place of the running one.
func plan(running map[string]config.ConfigSource, wanted []config.ConfigSource) (start []config.ConfigSource, stop []string) {
	named := map[string]bool{}
	for _, s := range wanted {
		named[s.URL] = true
		if was, runs := running[s.URL]; !runs || !proto.Equal(was.TLS, s.TLS) {
			start = append(start, s)
		}
	}
	for _, url := range slices.Sorted(maps.Keys(running)) {
		if !named[url] {
			stop = append(stop, url)
		}
	}
	return start, stop
}

// set makes these the running sources.
func (c *configSources) set(sources []config.ConfigSource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	start, stop := plan(c.running, sources)
	for _, s := range start {
		c.log.Info("configuration is read from a source of MeshConfig", "source", s.URL)
		source, store := c.open(s)
		c.running[s.URL] = s
		if store != nil {
			c.stores[s.URL] = store
		}
		c.add(s.URL, source)
	}
	for _, url := range stop {
		delete(c.running, url)
		delete(c.stores, url)
		c.remove(url)
	}
}

// storesAnd returns the stores of files, and that of ConfigDir, by the names of their sources.
func (c *configSources) storesAnd(own *file.Source) map[string]*file.Source {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := maps.Clone(c.stores)
	out["config"] = own
	return out
}

// lines returns a line for each fault of the stores of files.
func (c *configSources) lines() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, url := range slices.Sorted(maps.Keys(c.stores)) {
		out = append(out, c.stores[url].Status().Lines()...)
	}
	return out
}

// followed returns a source of settings; each MeshConfig that it sends sets the running sources.
func (c *configSources) followed(settings discovery.Source) discovery.Source {
	return tapped{settings, func(u model.Update) {
		for _, group := range u.Groups {
			for _, o := range group.Objects {
				if o.Kind == "MeshConfig" {
					c.set(config.ConfigSources(o))
				}
			}
		}
	}}
}

// tapped calls a function with each update before it forwards the update.
type tapped struct {
	discovery.Source
	tap func(model.Update)
}

func (t tapped) Run(ctx context.Context, updates chan<- model.Update) error {
	in := make(chan model.Update)
	var g errgroup.Group
	g.Go(func() error {
		defer close(in)
		return t.Source.Run(ctx, in)
	})
	g.Go(func() error {
		for u := range in {
			t.tap(u)
			select {
			case updates <- u:
			case <-ctx.Done():
			}
		}
		return nil
	})
	return g.Wait()
}
