package consul

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/internal/bounded"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

const (
	dialTimeout = 10 * time.Second
	askTimeout  = 30 * time.Second // for requests that do not wait for a change
	mostBytes   = 256 << 20        // of one answer; it is read in parts
	maxHeader   = 64 << 10         // of an answer
	maxSaid     = 200              // bytes of an answer that an error repeats
)

// Config holds the settings of the connection to Consul.
type Config struct {
	URL       string   // http://host:port, or https; a path before /v1 may follow
	TokenFile string   // of the ACL token, read for each request; "" for none
	Namespace string   // of Consul Enterprise; "" for the default one
	Partition string   // of Consul Enterprise; "" for that of the agent at URL
	Domains   []string // DNS domains of Consul, in which its services are served; none for Domain

	CACert     string // PEM file of roots; "" for the system's
	ClientCert string // PEM files of the certificate that Consul may request; "" for none
	ClientKey  string
}

func (c Config) spot() spot {
	out := spot{c.Namespace, c.Domains}
	if len(out.domains) == 0 {
		out.domains = []string{Domain}
	}
	return out
}

// client returns a client with separate connections. idle closes them.
func (c Config) client() (client *http.Client, idle func(), err error) {
	if _, err := url.Parse(c.URL); err != nil {
		return nil, nil, errors.New("parse the URL of Consul: want http://host:port or https://host:port") // without it: it may hold a password
	}
	secure, err := c.tls()
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout, TLSClientConfig: secure,
		MaxIdleConnsPerHost: lists + workers, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxHeader,
	}
	return &http.Client{Transport: door{c, transport}, CheckRedirect: stay}, transport.CloseIdleConnections, nil
}

// maxFile is the largest size of a file that is read, in bytes: the roots of a whole distribution have 0.3 MB.
const maxFile = 4 << 20

// tls returns the settings of https. The client's certificate is read for each connection, the roots are read once,
// here.
func (c Config) tls() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CACert != "" {
		pem, err := safefile.Read(c.CACert, maxFile)
		if err != nil {
			return nil, fmt.Errorf("read the roots of Consul's certificate: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the roots of Consul's certificate: %s holds no PEM certificate", c.CACert)
		}
	}
	if c.ClientCert != "" {
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := safefile.KeyPair(c.ClientCert, c.ClientKey, maxFile)
			if err != nil {
				return nil, fmt.Errorf("read the certificate for Consul: %w", err)
			}
			return &pair, nil
		}
	}
	return out, nil
}

// token reads the present ACL token; "" for none.
func (c Config) token() (string, error) {
	if c.TokenFile == "" {
		return "", nil
	}
	token, err := safefile.Read(c.TokenFile, maxFile)
	if err != nil {
		return "", fmt.Errorf("read Consul's token: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// stay refuses redirections: the request contains the token.
func stay(r *http.Request, _ []*http.Request) error {
	return fmt.Errorf("it leads to %.*s, which is not followed: want the URL of Consul itself", maxSaid, r.URL.Redacted())
}

// door handles every request: it adds the present token and the place in Consul Enterprise, and limits the answer.
type door struct {
	c    Config
	next http.RoundTripper
}

// RoundTrip sends a request with the present token, and limits the size of the answer.
func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := d.c.token()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	if d.c.TokenFile != "" {
		r.Header.Set("X-Consul-Token", token)
	}
	query := r.URL.Query()
	for name, value := range map[string]string{"ns": d.c.Namespace, "partition": d.c.Partition} {
		if value != "" {
			query.Set(name, value)
		}
	}
	r.URL.RawQuery = query.Encode()
	response, err := d.next.RoundTrip(r)
	if err == nil {
		response.Body = body{bounded.New(response.Body, mostBytes, errTooLong), response.Body}
	}
	return response, err
}

// body is that of an answer. It fails after mostBytes.
type body struct {
	io.Reader
	io.Closer
}
