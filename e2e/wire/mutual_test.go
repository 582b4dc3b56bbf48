//go:build wire

package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// spiffe is the identity of the proxies.
const spiffe = "spiffe://cluster.local/ns/default/sa/default"

// mutual starts a server that asks for a client's certificate, answers with its SPIFFE ID and serial number, and returns
// its port of 127.0.0.1. It speaks HTTP/1.1 under Istio's own name for it too, for istiod's clusters offer no other.
func (w *world) mutual(authority *lab.Authority, host string) int {
	w.T.Helper()
	identity, err := authority.Issue(host, 2)
	w.check(err)
	pair, err := identity.Pair()
	w.check(err)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(),
		NextProtos: []string{"istio", "http/1.1"},
	})
	w.check(err)
	server := &http.Server{
		Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			leaf := r.Context().Value(connection{}).(bare).Conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
			fmt.Fprintf(out, "%s %d", leaf.URIs[0], leaf.SerialNumber)
		}),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) },
	}
	server.SetKeepAlivesEnabled(false) // each request shows the certificate of its time
	go server.Serve(bareListener{listener})
	w.T.Cleanup(func() { server.Close() })
	return portOf(listener.Addr().String())
}

// connection is the key of a request's connection.
type connection struct{}

// bareListener hides from Go's server that connections have TLS: it closes those of a protocol that it does not know.
type bareListener struct{ net.Listener }

type bare struct{ net.Conn }

func (l bareListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return bare{c}, err
}
