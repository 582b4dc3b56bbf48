package ca

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"slices"
	"time"
)

// Files are the contents of an authority's files, PEM, under Istio's names.
type Files struct {
	Cert  []byte `json:"cert"`            // ca-cert.pem: the issuer
	Key   []byte `json:"key"`             // ca-key.pem
	Chain []byte `json:"chain,omitempty"` // cert-chain.pem: the certificates between the issuer and a root; nil for none
	Roots []byte `json:"roots"`           // root-cert.pem
}

// Names of the files.
const (
	CertFile  = "ca-cert.pem"
	KeyFile   = "ca-key.pem"
	ChainFile = "cert-chain.pem"
	RootsFile = "root-cert.pem"
)

// Authority signs certificates. It is not changed, and may be used by several goroutines.
type Authority struct {
	issuer   *x509.Certificate
	key      crypto.Signer
	path     []*x509.Certificate // from the issuer to a root
	between  []*x509.Certificate // the same without the root; none where the issuer is one
	roots    []*x509.Certificate
	pool     *x509.CertPool // of the roots
	rootsPEM []byte
	until    time.Time // of each leaf; zero for no end but the issuer's
}

// Until returns the authority for leaves that end by a time at the latest.
func (a *Authority) Until(end time.Time) *Authority {
	out := *a
	out.until = end
	return &out
}

// Roots returns all roots to trust, PEM.
func (a *Authority) Roots() []byte { return a.rootsPEM }

// Pool returns the roots for a verifier.
func (a *Authority) Pool() *x509.CertPool { return a.pool }

// Trusts reports whether a chain that was verified ends at a root of this authority.
func (a *Authority) Trusts(verified []*x509.Certificate) bool {
	if len(verified) == 0 {
		return false
	}
	for _, root := range a.roots {
		if root.Equal(verified[len(verified)-1]) {
			return true
		}
	}
	return false
}

// Ends returns when the first certificate of the issuer's path ends; no leaf outlives it.
func (a *Authority) Ends() time.Time {
	_, ends := a.limits()
	return ends
}

// Name returns the subject of the issuer.
func (a *Authority) Name() string { return a.issuer.Subject.String() }

// Same reports whether two authorities sign, and trust, the same.
func (a *Authority) Same(other *Authority) bool {
	return a.issuer.Equal(other.issuer) && bytes.Equal(a.rootsPEM, other.rootsPEM) && slices.EqualFunc(a.path, other.path, (*x509.Certificate).Equal)
}

// Root returns the SHA-256 of the root to which leaves lead.
func (a *Authority) Root() string {
	sum := sha256.Sum256(a.path[len(a.path)-1].Raw)
	return hex.EncodeToString(sum[:])
}

// limits returns when the issuer and all above it are valid.
func (a *Authority) limits() (from, to time.Time) {
	from, to = a.issuer.NotBefore, a.issuer.NotAfter
	for _, c := range a.path {
		if c.NotBefore.After(from) {
			from = c.NotBefore
		}
		if c.NotAfter.Before(to) {
			to = c.NotAfter
		}
	}
	return from, to
}

const certificateBlock = "CERTIFICATE"

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
