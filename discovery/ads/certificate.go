package ads

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/pilotlight/pilotlight/internal/binding"
	"github.com/pilotlight/pilotlight/internal/safefile"
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
	own     *Own       // nil for none
	reading sync.Mutex // what is read last is used
	current atomic.Pointer[tls.Config]
	known   known
}

// NewTLS reads the files. own may be nil. With its authority there need not be any files; clients may come without a certificate then,
// for they come for one. Such a client gets a stream of ADS if its token proves an identity.
func NewTLS(files Certificates, own *Own) (*TLS, error) {
	t := &TLS{files: files, own: own}
	return t, t.Reload()
}

// Reload reads the files again. If it returns an error, the certificates read before stay in use.
func (t *TLS) Reload() error {
	t.reading.Lock()
	defer t.reading.Unlock()
	config := &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"}, ClientCAs: x509.NewCertPool()}
	signs := t.own != nil && t.own.Roots != nil
	if t.own != nil {
		config.NextProtos = []string{"http/1.1", "h2"} // the server prefers the first: clients of gRPC offer the second only
	}
	if signs {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, t.own.Roots().Clone()
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.own.Certificate() }
	}
	if !signs || t.files != (Certificates{}) {
		pair, err := safefile.KeyPair(t.files.Cert, t.files.Key, maxCertificates)
		if err != nil {
			return fmt.Errorf("read certificate %s and key %s: %w", t.files.Cert, t.files.Key, err)
		}
		text, err := safefile.Read(t.files.CA, maxCertificates)
		if err != nil {
			return fmt.Errorf("read roots: %w", err)
		}
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("read roots %s: %w", t.files.CA, errors.New("no certificate in it, want PEM"))
		}
		config.Certificates, config.GetCertificate = []tls.Certificate{pair}, nil
	}
	t.current.Store(config)
	return nil
}

func (t *TLS) credentials() credentials.TransportCredentials {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: t.admitting,
	}
	if t.own == nil {
		return credentials.NewTLS(config)
	}
	return shared{credentials.NewTLS(config), config, t.own}
}

// admitting returns a configuration for a connection: it decides whether the certificate counts.
func (t *TLS) admitting(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if protocol := binding.Mesh(hello.SupportedProtos); protocol != "" {
		return nil, fmt.Errorf("%w: it offers the protocol %s, so a proxy of the mesh opened it for its client", errCaller, protocol)
	}
	agent, stream := binding.Agents(hello.SupportedProtos), slices.Contains(hello.SupportedProtos, binding.HTTP2)
	if conn, ok := hello.Conn.(*arrived); ok {
		conn.agent = agent
	}
	config := t.current.Load().Clone()
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return nil
		}
		if stream && !binding.Marked(state.PeerCertificates[0]) { // an operator may use the certificate of a command in a browser too
			t.known.add(state.PeerCertificates[0], time.Now())
		}
		return t.known.admit(state.PeerCertificates[0], agent, t.own == nil || t.own.Foreign)
	}
	return config, nil
}
