package debugclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/internal/binding"
	"github.com/pilotlight/pilotlight/internal/safefile"
	"github.com/pilotlight/pilotlight/internal/spiffe"
)

// At is where a discovery is asked: its pages on this host, or its secure port.
type At struct {
	address string // host:port, or :port of this host
	secure  *tls.Config
}

// Here returns the pages of discovery at host:port, or :port of this host.
func Here(address string) At { return At{address: address} }

// Files are what a caller from another host shows, and trusts, in PEM.
type Files struct {
	Cert, Key string // of the caller, in the root namespace
	Roots     string // of discovery's certificate
}

// maxFile is the largest size of a file that is read, in bytes: the roots of a whole distribution have 0.3 MB.
const maxFile = 4 << 20

// Afar returns the secure port of a discovery, host:port. name is what its certificate must be for, a DNS name, an address or a SPIFFE ID; "" for the
// host of the address.
func Afar(address, name string, f Files) (At, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return At{}, fmt.Errorf("the address is %q, want HOST:PORT", address)
	}
	pair, err := safefile.KeyPair(f.Cert, f.Key, maxFile)
	if err != nil {
		return At{}, fmt.Errorf("read certificate and key: %w", err)
	}
	text, err := safefile.Read(f.Roots, maxFile)
	if err != nil {
		return At{}, fmt.Errorf("read roots: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return At{}, fmt.Errorf("read roots %s: no certificate in it, want PEM", f.Roots)
	}
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: cmp.Or(name, host),
		NextProtos: []string{binding.HTTP1, "http/1.1"},
	}
	if spiffe.Like(name) {
		if _, err := spiffe.Parse(name); err != nil {
			return At{}, err
		}
		c.ServerName, c.InsecureSkipVerify = host, true // the library's check is replaced by ours, which checks the chain
		c.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, roots, name) }
	}
	return At{address, c}, nil
}

// verify checks the chain of a server's certificate, and that it has an identity.
func verify(state tls.ConnectionState, roots *x509.CertPool, want string) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server has no certificate")
	}
	leaf, between := state.PeerCertificates[0], x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return err
	}
	switch id, err := spiffe.Of(leaf); {
	case err != nil:
		return fmt.Errorf("the server's identity: %w", err)
	case id.String() != want:
		return fmt.Errorf("the server's certificate is for %q, want %q", id, want)
	}
	return nil
}

// reach returns the scheme, the host with its port, and what asks there.
func (a At) reach() (scheme, host string, by *http.Client) {
	if a.secure != nil {
		transport := &http.Transport{TLSClientConfig: a.secure, DisableKeepAlives: true} // HTTP/1.1: the port's other protocol is gRPC; and no proxy of the environment
		return "https", a.address, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if strings.HasPrefix(a.address, ":") {
		return "http", "127.0.0.1" + a.address, http.DefaultClient
	}
	return "http", a.address, http.DefaultClient
}

// timeout bounds a question and its answer; the others bound the bytes of an answer: of a line, a verdict, and a page.
const (
	timeout    = 30 * time.Second
	maxLine    = 4 << 10
	maxVerdict = 32 << 20
	maxPage    = 256 << 20
)

// Proxies asks a discovery for its connected proxies, and returns them as JSON.
func Proxies(ctx context.Context, at At) ([]byte, error) {
	return ask(ctx, http.MethodGet, at, "/debug/proxies", nil, maxPage)
}

// Config asks for the resources that a proxy was sent, by type, and returns them as JSON.
func Config(ctx context.Context, at At, node string) ([]byte, error) {
	return ask(ctx, http.MethodGet, at, "/debug/config_dump", url.Values{"proxyID": {node}}, maxPage)
}

// Explain asks what becomes of one request.
func Explain(ctx context.Context, at At, q explain.Question) (road explain.Road, err error) {
	text, err := ask(ctx, http.MethodGet, at, "/debug/explain", q.Values(), maxPage)
	if err != nil {
		return road, err
	}
	if err = json.Unmarshal(text, &road); err == nil && road.To == "" {
		err = errors.New("there is no road in it") // another program's JSON
	}
	if err != nil {
		return road, fmt.Errorf("read /debug/explain: %w; is it a discovery of this version?", err)
	}
	return road, nil
}

// Validate has files judged, as they are sent, and returns the verdict as JSON.
func Validate(ctx context.Context, at At, files []byte) ([]byte, error) {
	return send(ctx, http.MethodPost, at, "/debug/validate", nil, files, maxVerdict)
}

// Envoy asks the agent at host:port, or :port of this host, for what its Envoy has, and returns Envoy's own JSON.
func Envoy(ctx context.Context, address string) ([]byte, error) {
	return ask(ctx, http.MethodGet, Here(address), "/config_dump", url.Values{"include_eds": {""}}, maxPage)
}

// EnvoyClusters asks the same agent for the clusters of its Envoy, with the health of endpoints, and returns Envoy's own JSON.
func EnvoyClusters(ctx context.Context, address string) ([]byte, error) {
	return ask(ctx, http.MethodGet, Here(address), "/clusters", url.Values{"format": {"json"}}, maxPage)
}

// ask returns the body of an answer, of most bytes. The error has the text of a discovery that refuses.
func ask(ctx context.Context, method string, at At, path string, query url.Values, most int64) ([]byte, error) {
	return send(ctx, method, at, path, query, nil, most)
}

// send does the same, with a body.
func send(ctx context.Context, method string, at At, path string, query url.Values, body []byte, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	scheme, host, by := at.reach()
	u := url.URL{Scheme: scheme, Host: host, Path: path, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := by.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	text := strings.TrimSpace(string(said[:min(len(said), maxLine)]))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer of %s: %w", u.String(), err)
	case response.StatusCode == http.StatusNotFound && strings.HasPrefix(text, "404 page"):
		return nil, fmt.Errorf("%s has no page %s: is it a discovery of this version?", host, path)
	case scheme == "https" && response.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%s refuses the certificate: it wants one of the mesh's root namespace; its log says more", host)
	case response.StatusCode != http.StatusOK && text == "":
		return nil, errors.New(response.Status)
	case response.StatusCode != http.StatusOK:
		return nil, errors.New(text)
	case int64(len(said)) > most:
		return nil, fmt.Errorf("the answer of %s has more than %d bytes", u.String(), most)
	}
	return said, nil
}

// Release asks the discovery at host:port, or :port of this host, to end the hold of a source, and returns its answer, a line of text.
// The error is the answer of a discovery that refuses, as when the source holds nothing.
func Release(ctx context.Context, address, source string) (string, error) {
	text, err := ask(ctx, http.MethodPost, Here(address), "/debug/release", url.Values{"source": {source}}, maxLine)
	said := strings.TrimSpace(string(text))
	if err == nil && !strings.HasSuffix(said, "no longer held") {
		return "", fmt.Errorf("%s answers %.100q, which is not what discovery answers: want its --httpAddr", address, said)
	}
	return said, err
}
