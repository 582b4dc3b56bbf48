package plane

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/kube"
	"github.com/pilotlight/pilotlight/discovery/statedir"
	forms "github.com/pilotlight/pilotlight/discovery/statedir/kubernetes"
)

// joinState begins with what an earlier run has kept, and keeps what is served.
func (p *Plane) joinState() {
	c := p.config
	if c.StateDir == "" {
		return
	}
	p.state = statedir.New(c.StateDir, c.stateOf, c.StateMaxAge, c.Log)
	p.server.Remembered = map[string]discovery.Remembered{}
	for source, kept := range p.state.Load(time.Now()) {
		p.server.Remembered[source] = discovery.Remembered(kept)
	}
	p.server.Adder, p.server.Keeper = adderOf, p.state
}

// joinForms has the leader keep the last good forms of the cluster's broken objects, where replicas write to the
// cluster at all, and returns what reads them before objects are listed; nil for nothing.
func (p *Plane) joinForms() func(context.Context, *kube.Client) error {
	c := p.config
	if !c.Cluster.Objects || !c.Cluster.Statuses {
		return nil
	}
	p.forms = &forms.Secret{
		Namespace: c.Cluster.Lease.Namespace, Name: c.Cluster.Lease.Name + "-last-good", Source: objectsName, Of: c.stateOf(objectsName), Log: c.Log,
	}
	p.leading = append(p.leading, p.forms.Lead)
	return p.forms.Read
}

// stateLines returns a line for each fault of the state directory, and of the Secret of last good forms.
func (p *Plane) stateLines() (out []string) {
	if p.state != nil {
		out = p.state.Lines()
	}
	if p.forms != nil {
		out = append(out, p.forms.Lines()...)
	}
	return out
}

// adderOf returns the source that adds a source while the server runs: that of the clusters, or that of MeshConfig's
// file; "" for none.
func adderOf(source string) string {
	switch {
	case strings.HasPrefix(source, remote("")):
		return "clusters"
	case strings.Contains(source, "://"):
		return "meshConfig"
	default:
		return ""
	}
}

// stateOf returns what the groups of a source depend on. What an earlier run has kept with other settings is not used:
// a registry that may say less now must not be served as one that might.
func (c Config) stateOf(source string) statedir.Of {
	of := statedir.Of{Domain: c.Domain.String(), Cluster: c.Cluster.ID}
	switch {
	case source == "Consul":
		of.Scope = fmt.Sprintf("namespace %q, partition %q, domains %q", c.Consul.Namespace, c.Consul.Partition, lower(c.Domains.Consul))
	case source == "Eureka":
		grant := c.Domains.ofEureka(c.Domain)
		of.Scope = fmt.Sprintf("domains %q, but %q", grant.Domains, grant.Never)
	case source == "CloudFoundry":
		grant := c.Domains.ofCloudFoundry(c.Domain)
		of.Scope = fmt.Sprintf("suffix %q, domains %q, but %q", grant.Suffix, grant.Domains, grant.Never)
	case source == "meshConfigMap":
		of.Scope = fmt.Sprintf("ConfigMap %s/%s", c.Cluster.Settings.Namespace, c.Cluster.Settings.Name)
	case source == "ingress":
		of.Scope = fmt.Sprintf("class %q, proxies %v %v, ports %v", c.Ingress.Class, c.Ingress.Identity, c.Ingress.Selector, c.Ingress.Ports)
	case source == Kubernetes, source == objectsName, strings.HasPrefix(source, remote("")):
		of.Scope = fmt.Sprintf("namespaces %q", c.Cluster.Namespaces)
	}
	return of
}
