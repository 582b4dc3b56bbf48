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

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/health"
)

// Discovery describes the ADS server of a bootstrap that the agent has rendered. The zero value is for a bootstrap that
// the agent has not rendered.
type Discovery struct {
	Host string
	Port int
	TLS  bool
	SAN  string // the subject alternative name that its certificate must have
}

// diagnosisTimeout bounds each step of a diagnosis.
const diagnosisTimeout = time.Second

// Diagnose returns why an Envoy cannot reach discovery, and the remedy; empty where there is no fault. Envoy's own
// counters do not distinguish a refused connection from a server that requires TLS, and its log has no line about
// either.
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
	case leaf != nil && !slices.Contains(cert.Identities(leaf), d.SAN):
		return fmt.Sprintf("discovery at %s shows a certificate of %s, want %s: set --pilotIdentity to trust it, "+
			"or --discoveryAddress to another", address, cmp.Or(strings.Join(cert.Identities(leaf), ", "), "nobody"), d.SAN)
	}
	return ""
}

func (d Discovery) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: diagnosisTimeout}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(d.Host, strconv.Itoa(d.Port)))
}

// answersTLS sends an HTTP/2 preface in plain text, as Envoy does, and looks for TLS in the answer: an alert, or, if
// the plain text gets no answer, a TLS handshake that succeeds.
func (d Discovery) answersTLS(ctx context.Context, conn net.Conn) bool {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // and empty SETTINGS
	const alert = 0x15
	_ = conn.SetDeadline(time.Now().Add(diagnosisTimeout))
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })() // the exit of Envoy waits for a diagnosis
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

// leafOf returns the certificate that a server presents, nil where it presents none. It does not verify the
// certificate. A server that requires a client certificate may close the connection afterwards.
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

// bare returns an error without its address, which the surrounding text has already.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

// discoveryCluster is the ADS server's name in the bootstraps that the agent renders, and in Istio's.
const discoveryCluster = "cluster.xds-grpc."

// link queries the state of the connection to discovery; nil if the query fails, or if no cluster of the bootstrap is
// known to be discovery's. Where a relay serves Envoy, that cluster is the relay.
func (c *process) link(ctx context.Context, relayed *health.Relayed) *health.Link {
	if relayed != nil {
		l := health.Link{Hosts: 1, Why: relayed.Why}
		if relayed.Connected {
			l.Connected = 1
		} else if why := c.diagnose(ctx); why != "" {
			l.Why = why
		}
		return &l
	}
	stats, err := c.admin.Stats(ctx, `^cluster\.xds-grpc\.(membership_total|upstream_cx_(active|connect_fail)|`+
		`upstream_rq_(total|active)|ssl\.fail_verify_(san|error))$`)
	if err != nil || len(stats) == 0 && c.Discovery.Host == "" {
		return nil
	}
	l := linkOf(stats)
	if l.Connected == 0 {
		l.Why = c.diagnose(ctx)
	}
	return &l
}

// linkOf computes a Link from statistics. A stream is a request that is active while it is open. upstream_rq_completed
// is not used, since it counts failed connections as well.
func linkOf(stats map[string]int64) health.Link {
	return health.Link{
		Hosts:           stats[discoveryCluster+"membership_total"],
		Connected:       stats[discoveryCluster+"upstream_cx_active"],
		ConnectFailures: stats[discoveryCluster+"upstream_cx_connect_fail"],
		WrongIdentity:   stats[discoveryCluster+"ssl.fail_verify_san"],
		Unverified:      stats[discoveryCluster+"ssl.fail_verify_error"],
		Ended:           stats[discoveryCluster+"upstream_rq_total"] - stats[discoveryCluster+"upstream_rq_active"],
	}
}

// diagnose returns the last diagnosis, and starts a new one at intervals. It does not wait, since Envoy may become live
// at any moment.
func (c *process) diagnose(ctx context.Context) string {
	if c.Discovery.Host != "" && time.Since(c.diagnosed) >= diagnosisInterval {
		c.diagnosed = time.Now()
		c.diagnosing.Go(func() {
			why := c.Discovery.Diagnose(ctx)
			if last := c.diagnosis.Swap(&why); why != "" && (last == nil || *last != why) && ctx.Err() == nil {
				c.Log.Warn("Envoy cannot talk to discovery", "epoch", c.launch.Epoch, "why", why)
			}
		})
	}
	if why := c.diagnosis.Load(); why != nil {
		return *why
	}
	return ""
}
