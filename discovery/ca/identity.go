package ca

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"

	"github.com/pilotlight/pilotlight/internal/spiffe"
)

// Identity is that of a workload: a service account in a namespace of a trust domain. The zero value is none.
type Identity struct{ TrustDomain, Namespace, ServiceAccount string }

// NewIdentity returns an identity of names as Kubernetes allows them: a namespace is a DNS label, a service account a
// DNS subdomain. Other names could be read as a different path, such as "shop/../kube-system".
func NewIdentity(trustDomain, namespace, account string) (Identity, error) {
	id := Identity{trustDomain, namespace, account}
	switch {
	case !label(namespace):
		return Identity{}, fmt.Errorf("namespace %q is not a name of Kubernetes: want at most 63 lower-case letters, digits and '-'", namespace)
	case len(account) > 253 || !every(strings.Split(account, "."), subdomainPart):
		return Identity{}, fmt.Errorf("service account %q is not a name of Kubernetes: want at most 253 lower-case letters, digits, '-' and '.'", account)
	}
	switch read, err := spiffe.Parse(id.String()); {
	case err != nil:
		return Identity{}, err
	case read.TrustDomain != trustDomain:
		return Identity{}, fmt.Errorf("trust domain %q has a '/'", trustDomain)
	}
	return id, nil
}

// IdentityOf reads the identity of a certificate. It does not verify the certificate.
func IdentityOf(certificate *x509.Certificate) (Identity, error) {
	id, err := spiffe.Of(certificate)
	if err != nil {
		return Identity{}, err
	}
	if len(id.Path) != 4 || id.Path[0] != "ns" || id.Path[2] != "sa" {
		return Identity{}, fmt.Errorf("the certificate is for %q, want spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT", id)
	}
	return NewIdentity(id.TrustDomain, id.Path[1], id.Path[3])
}

func (id Identity) String() string {
	return "spiffe://" + id.TrustDomain + "/ns/" + id.Namespace + "/sa/" + id.ServiceAccount
}

func (id Identity) uri() *url.URL {
	return &url.URL{Scheme: "spiffe", Host: id.TrustDomain, Path: "/ns/" + id.Namespace + "/sa/" + id.ServiceAccount}
}

// label reports whether a text is a DNS label as Kubernetes has it.
func label(text string) bool { return len(text) <= 63 && subdomainPart(text) }

func subdomainPart(text string) bool {
	return text != "" && text[0] != '-' && text[len(text)-1] != '-' && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

func every(texts []string, holds func(string) bool) bool {
	for _, text := range texts {
		if !holds(text) {
			return false
		}
	}
	return true
}
