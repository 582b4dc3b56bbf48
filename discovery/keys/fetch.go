package keys

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Bounds of one question.
const (
	maxAnswer    = 256 << 10 // bytes
	maxHeader    = 64 << 10  // bytes
	maxRedirects = 3
	maxURI       = 2048 // bytes of an address that a document names
)

// Fetcher asks for key sets. It keeps no connection.
type Fetcher struct {
	client *http.Client
}

// New returns a Fetcher. roots verify servers of https, nil for those of the system; inside allows addresses that are not of
// the Internet.
func New(roots *x509.CertPool, inside bool) *Fetcher {
	return &Fetcher{&http.Client{CheckRedirect: redirect, Transport: &http.Transport{
		DialContext: Dial(inside, "jwksInside"), DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader, // and no proxy of the environment: it would dial what nobody judged
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}}
}

// redirect follows a few redirections, and none from https to plain text.
func redirect(to *http.Request, way []*http.Request) error {
	switch {
	case len(way) > maxRedirects:
		return fmt.Errorf("follow redirections: there are more than %d", maxRedirects)
	case way[0].URL.Scheme == "https" && to.URL.Scheme != "https":
		return fmt.Errorf("follow a redirection to %s: want https, as it began", to.URL.Redacted())
	}
	return nil
}

// Fetch asks for a key set once, as long as ctx lasts, and returns what Envoy takes of it. An address that ends like that of an
// OpenID configuration has no keys: the document there names their address.
func (f *Fetcher) Fetch(ctx context.Context, uri string) (string, error) {
	body, err := f.get(ctx, uri, "")
	if err != nil {
		return "", err
	}
	if u, err := url.Parse(uri); err == nil && strings.HasSuffix(u.Path, model.OpenIDConfiguration) {
		var document struct {
			Keys string `json:"jwks_uri"`
		}
		err := json.Unmarshal(body, &document)
		switch {
		case err != nil:
			return "", fmt.Errorf("fetch keys of %s: the answer is no OpenID configuration: %w", u.Redacted(), err)
		case document.Keys == "" || len(document.Keys) > maxURI:
			return "", fmt.Errorf("fetch keys of %s: jwks_uri of the answer has %d bytes, want 1 to %d", u.Redacted(), len(document.Keys), maxURI)
		}
		uri = document.Keys
		if body, err = f.get(ctx, uri, u.Scheme); err != nil {
			return "", fmt.Errorf("read jwks_uri of %s: %w", u.Redacted(), err)
		}
	}
	set, fault, _ := model.ReadKeySet(string(body))
	if fault != "" {
		return "", fmt.Errorf("fetch keys of %s: the answer %s", model.KeySetName(uri), fault)
	}
	return set, nil
}

// get returns the answer of an address, which a document of an address of this scheme has named, or a policy.
func (f *Fetcher) get(ctx context.Context, uri, scheme string) ([]byte, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("fetch keys of %q: want http://HOST/… or https://HOST/…", uri)
	}
	fail := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("fetch keys of %s: %w", u.Redacted(), err)
	}
	if scheme == "https" && u.Scheme != scheme {
		return fail(errors.New("an OpenID configuration that was fetched by https names it: want https"))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, http.NoBody)
	if err != nil {
		return fail(err)
	}
	request.Header.Set("Accept", "application/json, application/jwk-set+json")
	answer, err := f.client.Do(request)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) { // it repeats the URI, with its password
			err = of.Err
		}
		return fail(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fail(fmt.Errorf("the answer is %s, want 200", answer.Status))
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return fail(fmt.Errorf("read the answer: %w", err))
	}
	if len(body) > maxAnswer {
		return fail(fmt.Errorf("the answer has more than %d bytes", maxAnswer))
	}
	return body, nil
}
