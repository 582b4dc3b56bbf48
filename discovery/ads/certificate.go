package ads

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc/credentials"

	"github.com/pilotlight/pilotlight/internal/regular"
)

// Certificates are the files that the secure port needs, in PEM.
type Certificates struct {
	Cert string // the server's certificate and those between it and a root
	Key  string
	CA   string // roots of the clients' certificates
}

// maxCertificates is the largest size of a file that is read, in bytes: the roots of a whole distribution have 0.3 MB.
const maxCertificates = 4 << 20

// TLS holds the certificate that the secure port presents and the roots that it accepts. Both may change while streams
// are open: open streams stay.
type TLS struct {
	files   Certificates
	current atomic.Pointer[tls.Config]
}

// NewTLS reads the files.
func NewTLS(files Certificates) (*TLS, error) {
	t := &TLS{files: files}
	return t, t.Reload()
}

// Reload reads the files again. If it returns an error, the certificates read before stay in use.
func (t *TLS) Reload() error {
	pair, err := regular.KeyPair(t.files.Cert, t.files.Key, maxCertificates)
	if err != nil {
		return fmt.Errorf("read certificate %s and key %s: %w", t.files.Cert, t.files.Key, err)
	}
	text, err := regular.Read(t.files.CA, maxCertificates)
	if err != nil {
		return fmt.Errorf("read roots: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("read roots %s: %w", t.files.CA, errors.New("no certificate in it, want PEM"))
	}
	t.current.Store(&tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    roots,
		NextProtos:   []string{"h2"},
	})
	return nil
}

func (t *TLS) credentials() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current.Load(), nil },
	})
}
