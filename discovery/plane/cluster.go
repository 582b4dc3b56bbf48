package plane

import (
	"context"
	"errors"
	"log/slog"

	"github.com/pilotlight/pilotlight/discovery"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/kube/catalog"
	"github.com/pilotlight/pilotlight/discovery/model"
	services "github.com/pilotlight/pilotlight/discovery/registry/kubernetes"
)

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
