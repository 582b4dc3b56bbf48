package keys

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// Bounds of one question.
const (
	maxAnswer    = 256 << 10 // bytes
	maxHeader    = 64 << 10  // bytes
	maxRedirects = 3
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

// Fetch asks for a key set once, as long as ctx lasts, and returns what Envoy takes of it.
func (f *Fetcher) Fetch(ctx context.Context, uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("fetch keys of %q: want http://HOST/… or https://HOST/…", uri)
	}
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("fetch keys of %s: %w", u.Redacted(), err)
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
	set, fault, _ := model.ReadKeySet(string(body))
	if fault != "" {
		return fail(fmt.Errorf("the answer %s", fault))
	}
	return set, nil
}
