package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// Times of a pair.
const (
	life     = 90 * 24 * time.Hour
	replaced = 60 * 24 * time.Hour // age at which a pair is replaced
	early    = ca.Early
	settling = 5 * time.Minute // age at which it is served: by then all API servers have its root
)

// pair is a certificate with its key, and the root that has signed it: PEM.
type pair struct {
	certificate, key, root []byte
	tls                    tls.Certificate
}

// newPair makes a pair for names: DNS names and addresses. The root's key is not kept.
func newPair(names []string, now time.Time) (*pair, error) {
	root, err := ca.NewRoot("pilotlight webhooks", life, now)
	if err != nil {
		return nil, err
	}
	authority, err := ca.Read(root, now)
	if err != nil {
		return nil, err
	}
	certificate, key, err := authority.Server("pilotlight webhook", names, ca.Identity{}, life, now)
	if err != nil {
		return nil, err
	}
	return readPair(certificate, key, root.Roots)
}

// readPair reads a pair, and finds its root among roots. It does not check the validity. An error does not contain any
// part of the key.
func readPair(certificate, key, roots []byte) (*pair, error) {
	known, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, errors.New("the key and the certificate are none, or do not belong together")
	}
	if known.Leaf == nil {
		if known.Leaf, err = x509.ParseCertificate(known.Certificate[0]); err != nil {
			return nil, fmt.Errorf("parse the certificate: %w", err)
		}
	}
	for block, rest := pem.Decode(roots); block != nil; block, rest = pem.Decode(rest) {
		root, err := x509.ParseCertificate(block.Bytes)
		if err == nil && root.IsCA && known.Leaf.CheckSignatureFrom(root) == nil {
			return &pair{certificate, key, pem.EncodeToMemory(block), known}, nil
		}
	}
	return nil, errors.New("no root has signed the certificate")
}

func (p *pair) leaf() *x509.Certificate { return p.tls.Leaf }

// names returns the names of the certificate.
func (p *pair) names() []string {
	out := slices.Clone(p.leaf().DNSNames)
	for _, address := range p.leaf().IPAddresses {
		out = append(out, address.String())
	}
	return out
}

// missing returns those of the names for which the certificate is not valid.
func (p *pair) missing(names []string) (out []string) {
	for _, name := range names {
		if p.leaf().VerifyHostname(name) != nil {
			out = append(out, name)
		}
	}
	return out
}

// serves reports whether clients accept the pair now.
func (p *pair) serves(names []string, now time.Time) bool {
	return p != nil && p.valid(now) && len(p.missing(names)) == 0
}

func (p *pair) valid(now time.Time) bool {
	return !now.Before(p.leaf().NotBefore) && now.Before(p.leaf().NotAfter)
}

// made returns when the pair was made.
func (p *pair) made() time.Time { return p.leaf().NotBefore.Add(early) }

// old reports whether the pair is to be replaced, also if it was made with a shorter validity.
func (p *pair) old(now time.Time) bool {
	third := p.leaf().NotAfter.Sub(p.made()) / 3
	return !now.Before(p.made().Add(replaced)) || p.leaf().NotAfter.Sub(now) <= third
}

// The keys of the Secret, and the label of a Secret that discovery made.
const (
	certificateKey, keyKey, rootsKey = "tls.crt", "tls.key", "ca.crt"
	previousCertificate, previousKey = "previous.crt", "previous.key"
	ownerLabel, owner                = "app.kubernetes.io/managed-by", "pilotlight-discovery"
)

// pairs is the content of a Secret: the newest pair, and the one before, which is nil at first.
type pairs struct{ newest, previous *pair }

// readPairs reads a Secret's data; it returns nil for an empty Secret.
func readPairs(data map[string][]byte) (*pairs, error) {
	if len(data) == 0 {
		return nil, nil
	}
	newest, err := readPair(data[certificateKey], data[keyKey], data[rootsKey])
	if err != nil {
		return nil, fmt.Errorf("%s, %s, %s: %w", certificateKey, keyKey, rootsKey, err)
	}
	if len(data[previousCertificate]) == 0 {
		return &pairs{newest: newest}, nil
	}
	previous, err := readPair(data[previousCertificate], data[previousKey], data[rootsKey])
	if err != nil {
		return nil, fmt.Errorf("%s, %s, %s: %w", previousCertificate, previousKey, rootsKey, err)
	}
	return &pairs{newest, previous}, nil
}

// data returns the data of the Secret.
func (p *pairs) data() map[string][]byte {
	out := map[string][]byte{certificateKey: p.newest.certificate, keyKey: p.newest.key, rootsKey: p.roots()}
	if p.previous != nil {
		maps.Copy(out, map[string][]byte{previousCertificate: p.previous.certificate, previousKey: p.previous.key})
	}
	return out
}

// roots returns the roots of both pairs, as PEM, for the API servers to trust.
func (p *pairs) roots() []byte {
	out := slices.Clone(p.newest.root)
	if p.previous != nil {
		out = append(out, p.previous.root...)
	}
	return out
}

// served returns the pair to serve. As long as there is an older pair, a new one waits until the API servers have its
// root.
func (p *pairs) served(names []string, now time.Time) *pair {
	if p.previous.serves(names, now) && (!p.newest.serves(names, now) || now.Before(p.newest.made().Add(settling))) {
		return p.previous
	}
	return p.newest
}

// plan returns the pairs that are to replace those of a Secret, and the reason; nil if nothing is to change. It decides
// the same in all replicas.
func plan(found *pairs, names []string, now time.Time) (next *pairs, why string, err error) {
	var keep *pair
	switch {
	case found == nil:
		why = "there was none"
	case len(found.newest.missing(names)) > 0:
		why = "it is not for " + strings.Join(found.newest.missing(names), ", ")
		names = slices.Compact(slices.Sorted(slices.Values(slices.Concat(names, found.newest.names())))) // another replica may need them
		keep = found.served(names, now)
	case found.newest.old(now):
		why, keep = "the last one ends "+found.newest.leaf().NotAfter.Format(time.RFC3339), found.served(names, now)
	case !found.newest.valid(now) && !found.previous.serves(names, now):
		why, keep = "the last one begins "+found.newest.leaf().NotBefore.Format(time.RFC3339)+": the clock of this host, or of another replica, is wrong", found.newest
	default:
		return nil, "", nil
	}
	made, err := newPair(names, now)
	if err != nil {
		return nil, "", err
	}
	return &pairs{made, keep}, why, nil
}
