package relay

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/frame"
	"github.com/pilotlight/pilotlight/internal/binding"
)

const (
	mostRequest  = 16 << 20 // bytes; versions of 20,000 services have some
	mostResponse = 1 << 30

	pingInterval = 30 * time.Second // as Envoy's own connection to discovery has it
	pingTimeout  = 5 * time.Second
	window       = 256 << 10 // bytes that discovery may send before they are read
)

func newTransport(c Config) *http.Transport {
	protocols := new(http.Protocols)
	t := &http.Transport{
		Protocols:   protocols,
		DialContext: dialer{c.Host, c.Port, c.ConnectTimeout}.dial, DisableCompression: true,
		TLSHandshakeTimeout: c.ConnectTimeout,
		DisableKeepAlives:   true, // a connection has one stream, and ends with it
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: 4 * window,
			SendPingTimeout: pingInterval, PingTimeout: pingTimeout,
		},
	}
	if c.TLS == nil {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
		t.TLSClientConfig = c.TLS.config(c.Host)
	}
	return t
}

// dialer connects to one of discovery's addresses, in random order: else all proxies would go to the first.
type dialer struct {
	host    string
	port    int
	timeout time.Duration // for each address
}

func (d dialer) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	lookup, cancel := context.WithTimeout(ctx, max(d.timeout, 5*time.Second))
	defer cancel()
	addresses := []netip.Addr{}
	if one, err := netip.ParseAddr(d.host); err == nil {
		addresses = append(addresses, one)
	} else if addresses, err = net.DefaultResolver.LookupNetIP(lookup, "ip", d.host); err != nil {
		return nil, err
	}
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	var faults error
	for _, address := range addresses {
		one := net.Dialer{Timeout: d.timeout}
		conn, err := one.DialContext(ctx, network, net.JoinHostPort(address.String(), strconv.Itoa(d.port)))
		if err == nil {
			return conn, nil
		}
		faults = cmp.Or(faults, err)
	}
	return nil, cmp.Or(faults, fmt.Errorf("%s has no address", d.host))
}

// call is a stream to discovery, on a connection of its own.
type call struct {
	ctx      context.Context // ends with the call
	sends    chan<- []byte   // messages to send
	answered <-chan answered // has one value
	end      func()
}

// answered is the beginning of the first answer, or why there is none.
type answered struct {
	response *http.Response
	size     int // of the first message
	err      error
}

// open opens a stream with Envoy's own headers, which may have been set in its bootstrap. The caller ends it.
func (r *Relay) open(ctx context.Context, header http.Header) *call {
	ctx, cancel := context.WithCancel(ctx)
	body, requests := io.Pipe()
	sends, all := make(chan []byte), make(chan answered)
	scheme := "http"
	if r.config.TLS != nil {
		scheme = "https"
	}
	authority := net.JoinHostPort(r.config.Host, strconv.Itoa(r.config.Port))
	request := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Scheme: scheme, Host: authority, Path: deltaMethod}, Host: authority,
		Header: header.Clone(), Body: body, ContentLength: -1,
	}).WithContext(ctx)
	r.calls.Go(func() {
		transport := newTransport(r.config)
		defer transport.CloseIdleConnections()
		a := first(transport.RoundTrip(request))
		if a.err != nil {
			body.CloseWithError(a.err)
		}
		select {
		case all <- a:
			<-ctx.Done()
		case <-ctx.Done():
			if a.err == nil {
				a.response.Body.Close()
			}
		}
	})
	r.calls.Go(func() {
		defer requests.CloseWithError(context.Canceled)
		for {
			select {
			case <-ctx.Done():
				return
			case message := <-sends:
				if err := frame.Write(requests, message); err != nil {
					return
				}
			}
		}
	})
	end := func() {
		cancel()
		body.CloseWithError(context.Canceled)
	}
	return &call{ctx, sends, all, end}
}

// first reads up to the first message.
func first(response *http.Response, err error) answered {
	if err != nil {
		return answered{err: err}
	}
	size, err := 0, statusOf(response, response.Header)
	if err == nil {
		size, err = nextHead(response)
	}
	if err != nil {
		response.Body.Close()
	}
	return answered{response, size, err}
}

// nextHead reads the size of the next message. At the stream's end the error is discovery's.
func nextHead(response *http.Response) (int, error) {
	size, err := frame.ReadHead(response.Body, mostResponse)
	if errors.Is(err, io.EOF) {
		err = cmp.Or(statusOf(response, response.Trailer), errors.New("discovery has ended the stream"))
	}
	return size, err
}

// statusOf returns the error that a response says, in headers or in trailers.
func statusOf(response *http.Response, from http.Header) error {
	switch code := from.Get("Grpc-Status"); {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("discovery answers HTTP status %d", response.StatusCode)
	case code != "" && code != frame.OK:
		return &refusal{fmt.Sprintf("%.10s", code), fmt.Sprintf("%.300s", from.Get("Grpc-Message"))}
	}
	return nil
}

// TLS is mutual TLS with discovery.
type TLS struct {
	SAN string // that its certificate must have: a URI (spiffe://…), an IP address or a DNS name
	// Material returns what is used for the next handshake, so that a rotation needs no new configuration.
	Material func() (tls.Certificate, *x509.CertPool, error)
}

// config returns a configuration that reads the material at each handshake. Discovery is known by SAN, not by the name that
// was dialled, so the check of the standard library is replaced by verify.
func (t TLS) config(host string) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", binding.HTTP2}, InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			own, _, err := t.Material()
			return &own, err
		},
		VerifyConnection: func(s tls.ConnectionState) error {
			_, roots, err := t.Material()
			if err != nil {
				return err
			}
			return verify(s.PeerCertificates, roots, t.SAN)
		},
	}
	if _, err := netip.ParseAddr(host); err != nil {
		c.ServerName = host
	}
	return c
}

// verify checks a server's chain, leaf first.
func verify(chain []*x509.Certificate, roots *x509.CertPool, san string) error {
	if len(chain) == 0 || roots == nil || san == "" {
		return errors.New("discovery shows no certificate, or there is nothing to check it by")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return fmt.Errorf("discovery's certificate: %w", err)
	}
	names := cert.Identities(chain[0])
	if !slices.Contains(names, san) {
		return fmt.Errorf("discovery shows a certificate of %q, want %q", names, san)
	}
	return nil
}

// Pauses between two attempts at a discovery that is away. To each comes up to as much again twice, by chance: no herd comes back at once.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 4 * time.Second
	soon       = 2 // refusals that change nothing: a discovery that starts refuses for a moment
)

// pace counts the attempts in a row that have cost discovery something, and that it has not answered. Where nobody takes a connection, the
// pace stays: so discovery is noticed soon when it returns. The zero pace has none.
type pace struct{ refusals atomic.Int64 }

// failed notes a failed attempt.
func (p *pace) failed(err error) {
	if !unreached(err) {
		p.refusals.Add(1)
	}
}

// answered notes that discovery answers.
func (p *pace) answered() { p.refusals.Store(0) }

// pause waits before the next attempt. It returns false if ctx ends before.
func (p *pace) pause(ctx context.Context) bool {
	timer := time.NewTimer(pauseAfter(p.refusals.Load(), rand.Float64()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// untilAnswered asks discovery, with pauses before, until it answers. It returns false if ctx ends before.
func (p *pace) untilAnswered(ctx context.Context, ask func() error, lost func(why string)) bool {
	for p.pause(ctx) {
		err := ask()
		if err == nil {
			p.answered()
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		p.failed(err)
		lost(err.Error())
	}
	return false
}

// pauseAfter returns the pause after a number of refusals in a row; share, below 1, is chance.
func pauseAfter(refusals int64, share float64) time.Duration {
	least := min(firstPause<<min(max(refusals-soon, 0), 10), lastPause)
	return least + time.Duration(2*share*float64(least))
}

// unreached reports whether an attempt has not reached discovery.
func unreached(err error) bool {
	var dial *net.OpError
	var lookup *net.DNSError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &lookup)
}

// refusal is the status with which discovery ends a stream.
type refusal struct{ code, text string }

func (r *refusal) Error() string {
	return "discovery has ended the stream: status " + r.code + ": " + r.text
}

// full reports whether discovery takes no more streams for now: a proxy that comes again at once only keeps it busy.
func full(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == frame.ResourceExhausted
}
