package plane

import (
	"log/slog"

	"github.com/pilotlight/pilotlight/discovery"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/ingress"
	"github.com/pilotlight/pilotlight/discovery/ingress/source"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/registry/manifest"
	secretfile "github.com/pilotlight/pilotlight/discovery/secret/file"
	secrets "github.com/pilotlight/pilotlight/discovery/secret/kubernetes"
)

// ingresses serve the Ingresses of all stores. A nil one serves none.
type ingresses struct {
	Ingress
	source  *source.Source
	secrets *ingressSecrets
}

// newIngresses returns what serves Ingresses, nil for none, with Services of a domain. dir is nil without SecretsDir.
func newIngresses(c Ingress, d model.Domain, dir *secretfile.Source) *ingresses {
	if c.Class == "" {
		return nil
	}
	secrets := &ingressSecrets{dir: dir, account: c.Identity}
	from := source.New(ingress.Options{
		Class: c.Class, Proxies: c.Identity.Namespace, Selector: c.Selector, HTTP: c.Ports.HTTP, HTTPS: c.Ports.HTTPS, Domain: d,
	}, secrets)
	if dir != nil {
		dir.OnLearned = from.Wake
	}
	return &ingresses{c, from, secrets}
}

// feed returns the receiver of the Ingresses of a store, by the name of its source; nil for none.
func (i *ingresses) feed(store string) manifest.Ingresses {
	if i == nil {
		return nil
	}
	return i.source.Feed(store)
}

// remove removes the Ingresses of a store.
func (i *ingresses) remove(store string) {
	if i != nil {
		i.source.Remove(store)
	}
}

// join adds the sources of Ingresses to a server, and those of an API server and of its Secrets, if inCluster. It
// returns the writer of their addresses, nil for none.
func (i *ingresses) join(server *discovery.Server, from Cluster, inCluster bool, log *slog.Logger) (status *configs.IngressStatus) {
	if i == nil {
		return nil
	}
	server.Sources["ingress"] = i.source
	if !inCluster {
		return nil
	}
	const name = "kubernetesIngress"
	reader := secrets.New(from.connect)
	reader.OnLearned = i.source.Wake
	i.secrets.reader, server.Secrets["ingressSecrets"] = reader, reader
	feed := i.source.Feed(name)
	objects := &configs.Ingress{Connect: from.connect, Cluster: from.ID, Namespaces: from.Namespaces, Class: i.Class, Into: feed}
	if i.Service != (Name{}) {
		status = configs.NewIngressStatus(ingress.Name(i.Service), log)
		objects.Show = status.Show
		feed.Served(objects.Served)
	}
	server.Sources[name] = objects
	return status
}
