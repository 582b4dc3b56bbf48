package envoy

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Discovery is the ADS server as a bootstrap that the agent has rendered names it. The zero value is of a bootstrap that the
// agent has not rendered.
type Discovery struct {
	Host string
	Port int
	TLS  bool
	SAN  string // what its certificate must have
}

// diagnosisTimeout bounds each step of a diagnosis.
const diagnosisTimeout = time.Second

// Diagnose says why an Envoy could not talk to discovery, and what to do about it; empty where there is no fault. Envoy's own
// counters do not tell a refused connection from a server that wants TLS, and its log says nothing of either.
func (d Discovery) Diagnose(ctx context.Context) string {
	address := net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
	conn, err := d.dial(ctx)
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return fmt.Sprintf("discovery's name %s has no address (%s): set --discoveryAddress, or look at DNS",
			d.Host, cmp.Or(unknown.Err, "unknown"))
	case err != nil:
		return fmt.Sprintf("connections to discovery at %s fail (%v): is it running there?", address, bare(err))
	}
	defer conn.Close()
	if !d.TLS {
		if d.answersTLS(ctx, conn) {
			return fmt.Sprintf("discovery at %s speaks TLS and is asked in plain text: set --controlPlaneAuthPolicy MUTUAL_TLS, "+
				"or --discoveryAddress to its port without TLS", address)
		}
		return ""
	}
	leaf, err := leafOf(ctx, conn)
	switch {
	case leaf == nil && ctx.Err() == nil:
		return fmt.Sprintf("discovery at %s does not speak TLS (%v): set --controlPlaneAuthPolicy NONE, "+
			"or --discoveryAddress to its port with TLS", address, bare(err))
	case leaf != nil && !slices.Contains(identities(leaf), d.SAN):
		return fmt.Sprintf("discovery at %s shows a certificate of %s, want %s: set --pilotIdentity to trust it, "+
			"or --discoveryAddress to another", address, cmp.Or(strings.Join(identities(leaf), ", "), "nobody"), d.SAN)
	}
	return ""
}

func (d Discovery) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: diagnosisTimeout}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(d.Host, strconv.Itoa(d.Port)))
}

// answersTLS asks in plain text, as Envoy does, and looks for TLS in the answer: an alert, or a handshake that succeeds
// where the plain text is answered by nothing.
func (d Discovery) answersTLS(ctx context.Context, conn net.Conn) bool {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // and empty SETTINGS
	const alert = 0x15
	_ = conn.SetDeadline(time.Now().Add(diagnosisTimeout))
	answer := make([]byte, 1)
	_, err := io.WriteString(conn, preface)
	if err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	if err == nil {
		return answer[0] == alert
	}
	again, err := d.dial(ctx)
	if err != nil {
		return false
	}
	defer again.Close()
	leaf, _ := leafOf(ctx, again)
	return leaf != nil
}

// leafOf returns the certificate that a server shows, nil where it shows none. It is only looked at, so nothing is verified;
// a server that wants one of ours may refuse us afterwards.
func leafOf(ctx context.Context, conn net.Conn) (leaf *x509.Certificate, err error) {
	ctx, cancel := context.WithTimeout(ctx, diagnosisTimeout)
	defer cancel()
	client := tls.Client(conn, &tls.Config{
		InsecureSkipVerify: true,
		NextProtos:         []string{"h2"},
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf = s.PeerCertificates[0]
			return nil
		},
	})
	err = client.HandshakeContext(ctx)
	return leaf, err
}

// identities are the subject alternative names of a certificate.
func identities(c *x509.Certificate) (names []string) {
	for _, uri := range c.URIs {
		names = append(names, uri.String())
	}
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// bare is an error without the address, which the text around it has.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
