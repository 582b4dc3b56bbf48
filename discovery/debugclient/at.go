package debugclient

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/pilotlight/pilotlight/internal/binding"
	"github.com/pilotlight/pilotlight/internal/regular"
	"github.com/pilotlight/pilotlight/internal/spiffe"
)

// At is where a discovery is asked: its pages on this host, or its secure port.
type At struct {
	address string // host:port, or :port of this host
	secure  *tls.Config
}

// Here returns the pages of discovery at host:port, or :port of this host.
func Here(address string) At { return At{address: address} }

// Files are what a caller from another host shows, and trusts, in PEM.
type Files struct {
	Cert, Key string // of the caller, in the root namespace
	Roots     string // of discovery's certificate
}

// maxFile is the largest size of a file that is read, in bytes: the roots of a whole distribution have 0.3 MB.
const maxFile = 4 << 20

// Afar returns the secure port of a discovery, host:port. name is what its certificate must be for, a DNS name, an address or a SPIFFE ID; "" for the
// host of the address.
func Afar(address, name string, f Files) (At, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return At{}, fmt.Errorf("the address is %q, want HOST:PORT", address)
	}
	pair, err := regular.KeyPair(f.Cert, f.Key, maxFile)
	if err != nil {
		return At{}, fmt.Errorf("read certificate and key: %w", err)
	}
	text, err := regular.Read(f.Roots, maxFile)
	if err != nil {
		return At{}, fmt.Errorf("read roots: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return At{}, fmt.Errorf("read roots %s: no certificate in it, want PEM", f.Roots)
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: cmp.Or(name, host),
		NextProtos: []string{binding.HTTP1, "http/1.1"},
	}
	if spiffe.Like(name) {
		if _, err := spiffe.Parse(name); err != nil {
			return At{}, err
		}
		c.ServerName, c.InsecureSkipVerify = host, true // the library's check is replaced by ours, which checks the chain
		c.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, roots, name) }
	}
	return At{address, c}, nil
}

// verify checks the chain of a server's certificate, and that it has an identity.
func verify(state tls.ConnectionState, roots *x509.CertPool, want string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server has no certificate")
	}
	leaf, between := state.PeerCertificates[0], x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return err
	}
	switch id, err := spiffe.Of(leaf); {
	case err != nil:
		return fmt.Errorf("the server's identity: %w", err)
	case id.String() != want:
		return fmt.Errorf("the server's certificate is for %q, want %q", id, want)
	}
	return nil
}

// reach returns the scheme, the host with its port, and what asks there.
func (a At) reach() (scheme, host string, by *http.Client) {
	if a.secure != nil {
		transport := &http.Transport{TLSClientConfig: a.secure, DisableKeepAlives: true} // HTTP/1.1: the port's other protocol is gRPC; and no proxy of the environment
		return "https", a.address, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if strings.HasPrefix(a.address, ":") {
		return "http", "127.0.0.1" + a.address, http.DefaultClient
	}
	return "http", a.address, http.DefaultClient
}
