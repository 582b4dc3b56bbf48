package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	acmelib "golang.org/x/crypto/acme"

	"github.com/pilotlight/pilotlight/discovery/keys"
	"github.com/pilotlight/pilotlight/internal/bounded"
)

// Issuer is an ACME server, by the name that credentialName gives it.
type Issuer struct {
	Name  string
	URL   string // of its directory
	Email string // that it may write to; "" for none
	Roots string // file of the roots of its own certificate; "" for those of the system
}

// Bounds of one request.
const (
	requestTimeout = 30 * time.Second
	maxAnswer      = 1 << 20  // bytes
	maxHeader      = 64 << 10 // bytes
	nonceRetries   = 10       // of a request whose nonce was refused
)

var issuerName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ParseIssuers reads NAME=URL[,email=…][,roots=FILE], with semicolons between several.
func ParseIssuers(text string) (out Issuers, err error) {
	seen := map[string]bool{}
	for one := range strings.SplitSeq(text, ";") {
		if one == "" && text == "" {
			return nil, nil
		}
		i, err := parseIssuer(strings.TrimSpace(one))
		if err == nil && seen[i.Name] {
			err = fmt.Errorf("%s is given twice", i.Name)
		}
		if err != nil {
			return nil, err
		}
		seen[i.Name] = true
		out = append(out, i)
	}
	return out, nil
}

func parseIssuer(text string) (i Issuer, err error) {
	name, rest, _ := strings.Cut(text, "=")
	parts := strings.Split(rest, ",")
	i = Issuer{Name: name, URL: parts[0]}
	u, err := url.Parse(i.URL)
	switch {
	case !issuerName.MatchString(name):
		return i, fmt.Errorf("the name is %q, want small letters, digits and -", name)
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil:
		return i, fmt.Errorf("the URL of %s is %q, want https://HOST/… without a password", name, i.URL)
	}
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		switch {
		case key == "email" && strings.Contains(value, "@"):
			i.Email = value
		case key == "roots" && value != "":
			i.Roots = value
		default:
			return i, fmt.Errorf("%s has %q, want email=ADDRESS or roots=FILE", name, part)
		}
	}
	return i, nil
}

// Issuers are several of them.
type Issuers []Issuer

func (all Issuers) String() string {
	var out []string
	for _, i := range all {
		text := i.Name + "=" + i.URL
		if i.Email != "" {
			text += ",email=" + i.Email
		}
		if i.Roots != "" {
			text += ",roots=" + i.Roots
		}
		out = append(out, text)
	}
	return strings.Join(out, ";")
}

// Names returns their names.
func (all Issuers) Names() (names []string) {
	for _, i := range all {
		names = append(names, i.Name)
	}
	return names
}

// account is what speaks with an issuer, for one account there.
type account struct {
	Issuer
	http  *http.Client
	store Store

	mu     sync.Mutex
	client *acmelib.Client // nil until the account is there
}

func newAccount(i Issuer, s Store, inside bool) (*account, error) {
	var roots *x509.CertPool
	if i.Roots != "" {
		text, err := os.ReadFile(i.Roots)
		if err != nil {
			return nil, fmt.Errorf("--acmeIssuer %s: %w", i.Name, err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--acmeIssuer %s: %s has no certificate, want one or more in PEM", i.Name, i.Roots)
		}
	}
	transport := &http.Transport{
		DialContext: keys.Dial(inside, "acmeInside"), MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, IdleConnTimeout: requestTimeout,
	}
	return &account{Issuer: i, store: s, http: &http.Client{
		Transport: guarded{transport, s}, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// guarded sends requests over https alone, whatever addresses the issuer gives, and reads bounded answers. A process
// that was frozen, and may not ask any more, sends none when it wakes: its context may not have ended yet.
type guarded struct {
	http.RoundTripper
	store Store
}

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := g.store.Term(r.Context()); err != nil {
		return nil, err
	}
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("ask %s: want https", r.URL.Redacted())
	}
	answer, err := g.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body := answer.Body
	answer.Body = struct {
		io.Reader
		io.Closer
	}{bounded.New(body, maxAnswer, fmt.Errorf("the answer of %s has more than %d bytes", r.URL.Host, maxAnswer)), body}
	return answer, nil
}

// open returns the client of the account, which is made at the issuer if it has none.
func (a *account) open(ctx context.Context) (*acmelib.Client, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != nil {
		return a.client, nil
	}
	text, err := a.store.Account(ctx, a.Name, a.URL, func() ([]byte, error) {
		_, text, err := newKey()
		return text, err
	})
	if err != nil {
		return nil, err
	}
	key, err := readKey(text)
	if err != nil {
		return nil, err
	}
	client := &acmelib.Client{Key: key, HTTPClient: a.http, DirectoryURL: a.URL, UserAgent: "pilotlight", RetryBackoff: onlyNonces}
	who := &acmelib.Account{}
	if a.Email != "" {
		who.Contact = []string{"mailto:" + a.Email}
	}
	if _, err := client.Register(ctx, who, acmelib.AcceptTOS); err != nil && !errors.Is(err, acmelib.ErrAccountAlreadyExists) {
		return nil, fmt.Errorf("register: %w", err)
	}
	a.client = client
	return client, nil
}

// forget has the next try look for the account again.
func (a *account) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.client = nil
}

// onlyNonces repeats requests whose nonce was refused. All else is tried again later, when the record of the set says.
func onlyNonces(n int, _ *http.Request, answer *http.Response) time.Duration {
	if answer.StatusCode != http.StatusBadRequest || n > nonceRetries {
		return -1
	}
	return time.Millisecond
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func readKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("read key: it is no PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	own, is := key.(*ecdsa.PrivateKey)
	if !is {
		return nil, errors.New("read key: it is of another kind than ECDSA")
	}
	return own, nil
}
