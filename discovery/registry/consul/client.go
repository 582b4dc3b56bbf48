package consul

import (
	"context"
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

	"github.com/hashicorp/consul/api"

	"github.com/pilotlight/pilotlight/internal/regular"
)

const (
	dialTimeout = 10 * time.Second
	askTimeout  = 30 * time.Second // for requests that do not wait for a change
	mostBytes   = 256 << 20        // of one answer
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
func (c Config) client() (client *api.Client, idle func(), err error) {
	at, err := url.Parse(c.URL)
	if err != nil {
		return nil, nil, fmt.Errorf("parse the URL of Consul: %w", err)
	}
	secure, err := c.tls()
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout, TLSClientConfig: secure,
		MaxIdleConnsPerHost: lists + workers, IdleConnTimeout: time.Minute,
	}
	client, err = api.NewClient(&api.Config{
		Address: at.Host, Scheme: at.Scheme, PathPrefix: strings.TrimRight(at.Path, "/"), HttpClient: &http.Client{Transport: door{c, transport}, CheckRedirect: stay},
		Token: "of the file", // door sets the real one; without a token here the library reads the environment
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make a client of Consul: %w", err)
	}
	return client, transport.CloseIdleConnections, nil
}

// maxFile is the largest size of a file that is read, in bytes: the roots of a whole distribution have 0.3 MB.
const maxFile = 4 << 20

// tls returns the settings of https. The client's certificate is read for each connection, the roots are read once,
// here.
func (c Config) tls() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CACert != "" {
		pem, err := regular.Read(c.CACert, maxFile)
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
			pair, err := regular.KeyPair(c.ClientCert, c.ClientKey, maxFile)
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
	token, err := regular.Read(c.TokenFile, maxFile)
	if err != nil {
		return "", fmt.Errorf("read Consul's token: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// stay refuses redirections: the request contains the token.
func stay(r *http.Request, _ []*http.Request) error {
	return fmt.Errorf("it leads to %s, which is not followed: want the URL of Consul itself", r.URL.Redacted())
}

// door handles every request. The library fills unset fields from its own environment variables; here the settings win.
type door struct {
	c    Config
	next http.RoundTripper
}

// RoundTrip sends a request with the present token, and limits the size of the answer.
func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("X-Consul-Token")
	token, err := d.c.token()
	if err != nil {
		return nil, err
	}
	if d.c.TokenFile != "" {
		r.Header.Set("X-Consul-Token", token)
	}
	query := r.URL.Query()
	for name, value := range map[string]string{"ns": d.c.Namespace, "partition": d.c.Partition} {
		if query.Del(name); value != "" {
			query.Set(name, value)
		}
	}
	r.URL.RawQuery = query.Encode()
	response, err := d.next.RoundTrip(r)
	if err == nil {
		response.Body = &limited{response.Body, mostBytes}
	}
	return response, err
}

// limited is an answer that fails after a number of bytes.
type limited struct {
	io.ReadCloser
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLong
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

var (
	errTooLong = fmt.Errorf("the answer is longer than %d MiB", mostBytes>>20)
	errNull    = errors.New("the answer is null, want a list")
	errNoIndex = errors.New("the answer has no X-Consul-Index: want the URL of a Consul")
	errHidden  = errors.New("there is none, not even Consul's own: the token may not read any service; it needs service:read and node:read")
)

// asker sends requests to one Consul. Its errors name the request.
type asker struct {
	client *api.Client
	Config
	silence time.Duration // after which a request fails
}

// services returns the tags of each service. Consul's servers are a service too, in the default namespace, so an empty
// list means that the token may see no service. Consul reports that in a header, but not to a request without a token.
func (a asker) services(q *api.QueryOptions) (map[string][]string, *api.QueryMeta, error) {
	list, meta, err := a.client.Catalog().Services(q)
	if err == nil && len(list) == 0 && meta.LastIndex != 0 && (meta.ResultsFilteredByACLs || a.Namespace+a.Partition == "") {
		err = errHidden
	}
	return list, meta, listFault("services", list == nil, meta, err)
}

func (a asker) checks(q *api.QueryOptions) (api.HealthChecks, *api.QueryMeta, error) {
	list, meta, err := a.client.Health().State(api.HealthAny, q)
	return list, meta, listFault("health checks", list == nil, meta, err)
}

func (a asker) nodes(q *api.QueryOptions) ([]*api.Node, *api.QueryMeta, error) {
	list, meta, err := a.client.Catalog().Nodes(q)
	return list, meta, listFault("nodes", list == nil, meta, err)
}

func listFault(what string, null bool, meta *api.QueryMeta, err error) error {
	switch {
	case err == nil && null:
		err = errNull
	case err == nil && meta.LastIndex == 0:
		err = errNoIndex
	}
	return about(what, err)
}

// instances returns the instances of a service, with the health checks of each.
func (a asker) instances(ctx context.Context, name string) ([]*api.ServiceEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, a.silence)
	defer cancel()
	list, _, err := a.client.Health().Service(name, "", false, (&api.QueryOptions{}).WithContext(ctx))
	if err == nil && list == nil {
		err = errNull
	}
	return list, about(fmt.Sprintf("service %q", name), err)
}

func about(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read Consul's %s: %w", what, err)
}
