package ads

import (
	"crypto/x509"
	"net/netip"
	"time"
)

// Application is what a client shows, and its request for a certificate; a stream has none.
type Application struct {
	Chains  [][]*x509.Certificate // of the client's certificate, verified
	Token   string                // "" for none
	Address netip.Addr
	CSR     []byte
	TTL     time.Duration // 0 for the default
}
