package enroll

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/internal/binding"
)

const (
	askTimeout = 20 * time.Second
	dialTime   = 5 * time.Second
	maxAnswer  = 1 << 20
)

// server is an authority.
type server struct {
	host, port string
	identity   string // the URI that its certificate must have, if it is not for the host
}

// answer is what an authority answers.
type answer struct {
	Identity string    `json:"identity"`
	Chain    string    `json:"chain"`
	Roots    string    `json:"roots"`
	Issued   time.Time `json:"issued"` // by the clock of the authority
	Notes    []string  `json:"notes"`
	Error    string    `json:"error"`
}

// unsigned is the error for an answer without a certificate.
type unsigned struct {
	text  string
	after time.Duration // Retry-After; zero for none
}

func (u *unsigned) Error() string { return u.text }

// away is the error for an authority that cannot be reached: it has not said anything.
type away struct{ error }

func (a *away) Unwrap() error { return a.error }

// untrusted is the error for a certificate of the authority that is not taken.
type untrusted struct{ error }

func (u *untrusted) Unwrap() error { return u.error }

// isAway reports whether a request failed before the authority, or this agent, has refused the connection.
func isAway(err error) bool {
	var refused *untrusted
	var said *net.OpError
	return !errors.As(err, &refused) && !(errors.As(err, &said) && said.Op == "remote error") // an alert of TLS
}

// ask asks for a certificate: with a certificate, or with a token.
func (s server) ask(ctx context.Context, csr, roots []byte, with *tls.Certificate, token string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]string{"csr": string(csr)})
	if err != nil {
		return answer{}, err
	}
	at := net.JoinHostPort(s.host, s.port)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+at+"/v1/certificates", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	if with == nil {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, text, err := s.send(request, roots, with)
	if err != nil {
		return answer{}, err
	}
	return read(response, text, at)
}

// roots asks for the roots of the authority, by a certificate; nil where they are those that the caller has.
func (s server) roots(ctx context.Context, roots []byte, h *held) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	at := net.JoinHostPort(s.host, s.port)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s/v1/roots?have=%x", at, sha256.Sum256(h.roots)), nil)
	if err != nil {
		return nil, err
	}
	response, text, err := s.send(request, roots, &h.pair)
	if err != nil || response.StatusCode == http.StatusNotModified {
		return nil, err
	}
	a, err := read(response, text, at)
	return []byte(a.Roots), err
}

// send sends a request, with a certificate unless that is nil.
func (s server) send(request *http.Request, roots []byte, with *tls.Certificate) (*http.Response, []byte, error) {
	config, err := s.tls(roots)
	if err != nil {
		return nil, nil, err
	}
	if with != nil {
		config.Certificates = []tls.Certificate{*with}
	}
	dialer := &net.Dialer{Timeout: dialTime}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: config, DisableKeepAlives: true, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	response, err := transport.RoundTrip(request)
	if err != nil {
		if err = fmt.Errorf("ask %s: %w", request.URL.Host, err); isAway(err) {
			err = &away{err}
		}
		return nil, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, nil, fmt.Errorf("read the answer of %s: %w", request.URL.Host, err)
	}
	return response, text, nil
}

func read(response *http.Response, text []byte, at string) (a answer, err error) {
	err = json.Unmarshal(text, &a)
	switch {
	case response.StatusCode == http.StatusOK && err == nil:
		return a, nil
	case response.StatusCode == http.StatusOK:
		return answer{}, fmt.Errorf("parse the answer of %s: %w", at, err)
	case a.Error == "":
		a.Error = "no reason is given"
	}
	u := &unsigned{text: fmt.Sprintf("%s answers %s: %s", at, response.Status, a.Error)}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		u.after = time.Duration(min(seconds, int(longestAsk/time.Second))) * time.Second
	}
	return answer{}, u
}

// tls verifies that the authority's certificate leads to a root, and is for the host or for the identity.
func (s server) tls(roots []byte) (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(roots) {
		return nil, errors.New("there is no root to verify the authority by: want PEM in --caRoots")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{binding.HTTP1, "http/1.1"}, ServerName: s.host,
		InsecureSkipVerify: true, // VerifyConnection does it: for another name
		VerifyConnection: func(state tls.ConnectionState) (err error) {
			defer func() {
				if err != nil {
					err = &untrusted{err}
				}
			}()
			between := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				between.AddCert(c)
			}
			leaf := state.PeerCertificates[0]
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: between}); err != nil {
				return withClock(err, leaf, time.Now())
			}
			var names []string
			for _, uri := range leaf.URIs {
				names = append(names, uri.String())
			}
			if slices.Contains(names, s.identity) || leaf.VerifyHostname(s.host) == nil {
				return nil
			}
			return fmt.Errorf("its certificate is for %s, want %s or %s: --pilotIdentity", strings.Join(append(names, leaf.DNSNames...), ", "), s.host, s.identity)
		},
	}, nil
}

const clocksAgree = 2 * time.Minute // an answer may be on its way for some of it

// clockNote says how far the clock of this machine is from that of the authority, by when it has signed; "" where they agree or that is not known.
func clockNote(issued, now time.Time) string {
	off := now.Sub(issued)
	switch {
	case issued.IsZero() || off.Abs() < clocksAgree:
		return ""
	case off > 0:
		return fmt.Sprintf("the clock of this machine is %s fast, or that of the authority slow", off.Round(time.Second))
	default:
		return fmt.Sprintf("the clock of this machine is %s slow, or that of the authority fast", (-off).Round(time.Second))
	}
}

// withClock adds to an error what clocks have to do with it: a certificate of the authority that is not valid at this machine's time.
func withClock(err error, leaf *x509.Certificate, now time.Time) error {
	invalid := new(x509.CertificateInvalidError)
	if err == nil || !errors.As(err, invalid) || invalid.Reason != x509.Expired {
		return err
	}
	switch {
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("%w: the clock of this machine is hours slow, by %s at least, or that of the authority fast", err, leaf.NotBefore.Sub(now).Round(time.Second))
	case now.After(leaf.NotAfter):
		return fmt.Errorf("%w: the clock of this machine is hours fast, by %s at least, or that of the authority slow", err, now.Sub(leaf.NotAfter).Round(time.Second))
	}
	return err
}
