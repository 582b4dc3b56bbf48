package keys

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
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

// New returns a Fetcher. roots verify servers of https, nil for those of the system; inside allows addresses that are
// not of the Internet.
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

// Fetch asks for a key set once, as long as ctx lasts, and returns what Envoy takes of it. An address that ends like
// that of an OpenID configuration has no keys: the document there names their address.
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

// inside are ranges that are not of the Internet, beside those that package netip knows.
var inside = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this host
	netip.MustParsePrefix("100.64.0.0/10"),   // a carrier's own
	netip.MustParsePrefix("192.0.0.0/24"),    // of protocols
	netip.MustParsePrefix("192.0.2.0/24"),    // of documents, as the next ones
	netip.MustParsePrefix("198.51.100.0/24"), //
	netip.MustParsePrefix("203.0.113.0/24"),  //
	netip.MustParsePrefix("2001:db8::/32"),   //
	netip.MustParsePrefix("198.18.0.0/15"),   // of measurements
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("64:ff9b::/96"),    // IPv4 behind a translator, as the next ones: it may be inside
	netip.MustParsePrefix("64:ff9b:1::/48"),  //
	netip.MustParsePrefix("::ffff:0:0:0/96"), //
	netip.MustParsePrefix("2002::/16"),       //
	netip.MustParsePrefix("2001::/32"),       //
	netip.MustParsePrefix("fec0::/10"),       // a site's own
	netip.MustParsePrefix("100::/64"),        // discarded
}

// Inside reports whether an address is not one of the Internet: nobody who writes a policy may have discovery ask it.
func Inside(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	if !ip.IsValid() || !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return true
	}
	if ip.Is6() && ip.AsSlice()[0] == 0 && ip.As16()[1] == 0 && netip.MustParsePrefix("::/96").Contains(ip) {
		return true // IPv4 in the oldest form
	}
	for _, p := range inside {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// resolver is what a dialer asks for addresses.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// dialer connects to addresses that it has judged itself: a name that gives other addresses to the next question leads
// nowhere else.
type dialer struct {
	resolver resolver
	inside   bool   // addresses inside are allowed
	flag     string // that allows them
	connect  func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial returns what connects to addresses of the Internet, and with inside to others too, which a flag allows.
func Dial(inside bool, flag string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return dialer{net.DefaultResolver, inside, flag, (&net.Dialer{}).DialContext}.dial
}

func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read address %s: %w", address, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("read address %s: port is %q, want 1 to 65535", address, port)
	}
	all, err := d.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", host, err)
	}
	var last error
	for _, ip := range all {
		if !d.inside && Inside(ip) {
			last = fmt.Errorf("dial %s: %s is an address inside, which is not asked: want one of the Internet, or --%s", host, ip, d.flag)
			continue
		}
		conn, err := d.connect(ctx, network, net.JoinHostPort(ip.Unmap().String(), port))
		if err == nil {
			return conn, nil
		}
		last = fmt.Errorf("dial %s: %w", host, err)
	}
	if last == nil {
		last = fmt.Errorf("resolve %s: it has no address", host)
	}
	return nil, last
}
