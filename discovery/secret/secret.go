package secret

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
)

// Secret is a certificate with its key, or roots to check others' by; all PEM. It is immutable once it is sent.
type Secret struct {
	Certificate, Key, Roots []byte
	// Accounts are the service accounts whose proxies may have Key, "*" for all of the namespace.
	Accounts []string
}

func (s Secret) equal(other Secret) bool {
	return bytes.Equal(s.Certificate, other.Certificate) && bytes.Equal(s.Key, other.Key) && bytes.Equal(s.Roots, other.Roots) &&
		slices.Equal(s.Accounts, other.Accounts)
}

// Name is what proxies ask for a secret by, in the namespace that they are of.
type Name struct{ Namespace, Name string }

func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Set is the secrets that there are, by namespace, then by the name that proxies ask for. A proxy gets one where all of
// this holds: the secret is of its namespace; the configuration that discovery makes for it names the secret, since a
// Gateway that selects it does, or a DestinationRule that it is under; and its certificate is of one of Accounts, where
// the secret has a key.
type Set map[string]map[string]Secret

// Group is the smallest unit that a source replaces, such as a directory of files: a certificate and the roots beside it.
type Group struct {
	Secrets map[Name]Secret
	// Faults say what is wrong with the record, each with where it stands. A group of nothing else is malformed: the last good
	// one stays.
	Faults []string
}

// Malformed reports whether nothing of the record can be read.
func (g Group) Malformed() bool { return len(g.Secrets) == 0 && len(g.Faults) > 0 }

// Same reports whether two groups hold the same secrets.
func (g Group) Same(other Group) bool { return maps.EqualFunc(g.Secrets, other.Secrets, Secret.equal) }

// Update is what a source tells at once.
type Update struct {
	Groups map[string]Group // that changed, by the source's own keys; an empty one is gone
	Synced bool             // all that was known at the start has been told
}

// Source tells groups of secrets, and then what changes, until ctx is done. After an error it is started again, and tells
// everything again; what it told before is served until then. One that returns nil has nothing more to tell. The rules are
// those of discovery.Source: see docs/design/007-sources.md.
type Source interface {
	Run(ctx context.Context, updates chan<- Update) error
}

// Unite makes one set of what sources have told, by their names and their keys. Of two that tell one name, the first in the
// order of sources and keys has it, in every replica; losers says which did not get it, by source.
func Unite(told map[string]map[string]Group) (all Set, losers map[string][]string) {
	all, losers = Set{}, map[string][]string{}
	owners := map[Name]string{}
	for _, source := range slices.Sorted(maps.Keys(told)) {
		groups := told[source]
		for _, key := range slices.Sorted(maps.Keys(groups)) {
			for name, secret := range groups[key].Secrets {
				if owner, taken := owners[name]; taken {
					losers[source] = append(losers[source], fmt.Sprintf("%s: the secret %s is not served, source %s has one of that name", key, name, owner))
					continue
				}
				owners[name] = source
				if all[name.Namespace] == nil {
					all[name.Namespace] = map[string]Secret{}
				}
				all[name.Namespace][name.Name] = secret
			}
		}
		slices.Sort(losers[source])
	}
	return all, losers
}
