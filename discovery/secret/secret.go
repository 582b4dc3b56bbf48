package secret

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Secret is a certificate with its key, or roots to verify peer certificates; all PEM. It is immutable once it is sent.
type Secret struct {
	Certificate, Key, Roots []byte
	// Accounts are the service accounts whose proxies may have Key, "*" for all of the namespace.
	Accounts []string
	// Namespaces are those whose DestinationRules may use Key, in addition to the secret's own and the root namespace.
	Namespaces []string
	// From and Until are the life of the leaf of Certificate; zero without one.
	From, Until time.Time
}

// Pair returns the secret of a certificate and its key, for the proxies of accounts. Its error shows nothing of them.
func Pair(certificate, key []byte, accounts []string) (Secret, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return Secret{}, err
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return Secret{}, err
	}
	return Secret{Certificate: certificate, Key: key, Accounts: accounts, From: leaf.NotBefore, Until: leaf.NotAfter}, nil
}

func (s Secret) equal(other Secret) bool {
	return bytes.Equal(s.Certificate, other.Certificate) && bytes.Equal(s.Key, other.Key) && bytes.Equal(s.Roots, other.Roots) &&
		slices.Equal(s.Accounts, other.Accounts) && slices.Equal(s.Namespaces, other.Namespaces)
}

// Name is the name by which proxies request a secret, in their own namespace.
type Name struct{ Namespace, Name string }

func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Wanted is a secret that configuration names, for proxies of another namespace.
type Wanted struct {
	Object   Name     // namespace and name of the record: of a Kubernetes Secret, or of a directory
	As       Name     // the name by which proxies request it
	Accounts []string // that may have its key
	Pair     bool     // it is useless without a certificate and its key
}

// Same reports whether two are equal.
func (w Wanted) Same(o Wanted) bool {
	return w.Object == o.Object && w.As == o.As && w.Pair == o.Pair && slices.Equal(w.Accounts, o.Accounts)
}

// Set holds all secrets, by namespace, then by the name that proxies request. A proxy gets a secret if all of these
// hold: the secret is in its namespace; a Gateway that selects the proxy, or a DestinationRule that applies to it,
// names the secret, so that the configuration made for the proxy names it; and, for a secret with a key, its
// certificate is of one of Accounts.
type Set map[string]map[string]Secret

// Group is the smallest unit that a source replaces, such as a directory of files: a certificate and the roots beside it.
type Group struct {
	Secrets map[Name]Secret
	// Faults are the faults of the record, each with its place. A group with faults and no secrets is malformed: the
	// last good one stays.
	Faults []string
}

// Len returns the number of secrets in the group.
func (g Group) Len() int { return len(g.Secrets) }

// Malformed reports whether nothing of the record can be read.
func (g Group) Malformed() bool { return len(g.Secrets) == 0 && len(g.Faults) > 0 }

// Same reports whether two groups hold the same secrets.
func (g Group) Same(other Group) bool { return maps.EqualFunc(g.Secrets, other.Secrets, Secret.equal) }

// Update is what a source sends at once.
type Update struct {
	Groups map[string]Group // changed groups, by the source's own keys; an empty group is removed
	Synced bool             // the whole initial state has been sent
}

// Source sends groups of secrets, and then changes, until ctx is done. After an error it is started again, and sends
// everything again; the groups that it sent before are served until then. A source that returns nil has nothing more to
// send. The rules are those of discovery.Source: see docs/design/007-sources.md.
type Source interface {
	Run(ctx context.Context, updates chan<- Update) error
}

// Unite makes one set of the groups that sources have sent, by source and key. If two groups have a secret of one name,
// the first in the order of sources and keys wins, in every replica; losers names those that lost, by source.
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

// Mark tells one certificate, or one set of roots, from another, without showing it.
type Mark struct {
	Serial string    `json:"serial,omitempty"` // of the first certificate, in hexadecimal digits
	Until  time.Time `json:"until,omitzero"`   // when that one ends
	SHA256 string    `json:"sha256"`           // of all bytes
}

// MarkOf returns the mark of certificates in PEM. Bytes that are none have a hash alone.
func MarkOf(text []byte) Mark {
	sum := sha256.Sum256(text)
	m := Mark{SHA256: hex.EncodeToString(sum[:])}
	block, _ := pem.Decode(text)
	if block == nil {
		return m
	}
	if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.SerialNumber != nil {
		m.Serial, m.Until = c.SerialNumber.Text(16), c.NotAfter.UTC()
	}
	return m
}
