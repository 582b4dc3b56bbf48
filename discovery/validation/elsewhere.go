package validation

import (
	"slices"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Registry is a registry that serve has beside the files, as far as it is known without asking it.
type Registry struct {
	Name  string
	Hosts model.Grant // that its services may have

	// Cluster is that it has namespaces, and Pods with labels, too.
	Cluster bool
}

// Registries are those that serve has beside the files.
type Registries []Registry

func isCluster(r Registry) bool { return r.Cluster }

func (all Registries) has(property func(Registry) bool) bool {
	return slices.ContainsFunc(all, property)
}

// Names returns the names of the registries.
func (all Registries) Names() (out []string) {
	for _, r := range all {
		out = append(out, r.Name)
	}
	return out
}

// gives reports whether the registry may have a service with the host, or one that a wildcard matches.
func (r Registry) gives(host string) bool {
	if _, err := r.Hosts.Right(host); err == nil {
		return true
	}
	return model.IsWildcard(host) && r.Hosts.Suffix != "" && model.HostMatches(host, "any."+r.Hosts.Suffix)
}

// missing returns a name for what a note says that the mesh lacks, if a registry may have it; "" if the note counts.
func (all Registries) missing(n model.Note, mesh *model.Mesh) string {
	switch n.Code {
	case model.UnknownHost, model.UnknownPort, model.NotHTTP:
		if all.has(func(r Registry) bool { return r.gives(n.Missing) }) {
			return "host " + n.Missing
		}
	case model.EmptySubset:
		s := mesh.Service(n.Missing) // of which a cluster's Pods may be endpoints
		if all.has(func(r Registry) bool { return r.gives(n.Missing) || r.Cluster && s != nil && len(s.Selector) > 0 }) {
			return "endpoints of " + n.Missing
		}
	case model.UnknownNamespace:
		if all.has(isCluster) {
			return "namespace " + n.Missing
		}
	case model.EmptySelector, model.NoAddress:
		if len(all) > 0 {
			return "workloads of " + n.Meta.Kind + " " + n.Meta.Namespace + "/" + n.Meta.Name
		}
	}
	return ""
}
