package ads

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
)

// Own is what this process adds to the secure port.
type Own struct {
	Web     func(net.Conn) // takes connections of HTTP/1.1, after the handshake
	Foreign bool           // certificates count without the protocol of agents, except those of agents

	// Of an authority; nil without one.
	Certificate func() (*tls.Certificate, error) // of the server, where no file has one
	Roots       func() *x509.CertPool            // of clients' certificates, at each Reload; those of the files are trusted too
	Sign        func(context.Context, Application) (chain []string, err error)
	Prove       prover
}

// prover returns the SPIFFE ID that the token of a client without a certificate proves. Its errors are for the client.
type prover func(context.Context, Application) (id string, err error)
