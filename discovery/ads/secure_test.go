package ads

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pilotlight/pilotlight/discovery/ads/adstest"
	"github.com/pilotlight/pilotlight/discovery/ads/content"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/e2e/lab"
)

// authority signs certificates of a test.
type authority struct {
	*lab.Authority
	t *testing.T
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a, err := lab.NewAuthority("mesh")
	if err != nil {
		t.Fatal(err)
	}
	return authority{a, t}
}

func (a authority) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// issue makes an identity for discovery.test, or for a SPIFFE ID.
func (a authority) issue(serial int64, id string) lab.Identity {
	a.t.Helper()
	identity, err := a.Issue(cmp.Or(id, "discovery.test"), serial)
	a.check(err)
	return identity
}

// issueTwo makes a certificate with two SPIFFE IDs.
func (a authority) issueTwo(id, further string) lab.Identity {
	a.t.Helper()
	uri, err := url.Parse(further)
	a.check(err)
	identity, err := a.IssueWith(id, 3, func(c *x509.Certificate) { c.URIs = append(c.URIs, uri) })
	a.check(err)
	return identity
}

// write puts a server's files into dir.
func (a authority) write(dir string, i lab.Identity) Certificates {
	a.t.Helper()
	a.check(i.Mount(dir))
	return Certificates{
		Cert: filepath.Join(dir, "cert-chain.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "root-cert.pem"),
	}
}

// client returns the credentials with which a proxy with a certificate dials. seen, if not nil, gets the server's
// serial.
func (a authority) client(seen *int64, identities ...lab.Identity) credentials.TransportCredentials {
	a.t.Helper()
	var certificates []tls.Certificate
	for _, i := range identities {
		pair, err := tls.X509KeyPair(i.Chain, i.Key)
		a.check(err)
		certificates = append(certificates, pair)
	}
	return credentials.NewTLS(&tls.Config{
		ServerName: "discovery.test", RootCAs: a.Pool(), Certificates: certificates,
		VerifyConnection: func(s tls.ConnectionState) error {
			if seen != nil {
				*seen = s.PeerCertificates[0].SerialNumber.Int64()
			}
			return nil
		},
	})
}

// A proxy's certificate must be of its node's namespace, in a trust domain of the mesh.
func TestSecureRefusesOtherNamespaces(t *testing.T) {
	a := newAuthority(t)
	secure, err := NewTLS(a.write(t.TempDir(), a.issue(2, "")), nil)
	a.check(err)
	r := runWith(t, testLimits(), secure)
	r.Push(model.New(slices.Values([]model.Group{{
		Services: adstest.Mesh(1, "a").Services(),
		Objects:  []*model.Object{{Meta: model.Meta{Kind: "MeshConfig"}, Spec: &meshconfig.MeshConfig{TrustDomainAliases: []string{"old.test"}}}},
	}})), model.Change{})
	for name, test := range map[string]struct {
		identities []lab.Identity
		code       codes.Code
		text       string
	}{
		"its own":          {[]lab.Identity{a.issue(3, "spiffe://cluster.local/ns/default/sa/app")}, codes.OK, ""},
		"another's":        {[]lab.Identity{a.issue(3, "spiffe://cluster.local/ns/other/sa/app")}, codes.PermissionDenied, "ns/other/sa/app"},
		"no SPIFFE ID":     {[]lab.Identity{a.issue(3, "")}, codes.PermissionDenied, "want spiffe://TRUST_DOMAIN/ns/default"},
		"a broken ID":      {[]lab.Identity{a.issue(3, "spiffe://cluster.local/ns/default")}, codes.PermissionDenied, "want spiffe://"},
		"a foreign domain": {[]lab.Identity{a.issue(3, "spiffe://foreign.test/ns/default/sa/app")}, codes.PermissionDenied, `TRUST_DOMAIN of ["cluster.local" "old.test"]`},
		"an alias":         {[]lab.Identity{a.issue(3, "spiffe://old.test/ns/default/sa/app")}, codes.OK, ""},
		"no domain":        {[]lab.Identity{a.issue(3, "spiffe:///ns/default/sa/app")}, codes.PermissionDenied, "want spiffe://"},
		"no account":       {[]lab.Identity{a.issue(3, "spiffe://cluster.local/ns/default/sa/")}, codes.PermissionDenied, "want spiffe://"},
		"no certificate":   {nil, codes.Unavailable, ""},
		"two IDs":          {[]lab.Identity{a.issueTwo("spiffe://cluster.local/ns/other/sa/app", "spiffe://cluster.local/ns/default/sa/app")}, codes.PermissionDenied, "2 URIs"},
		"a query":          {[]lab.Identity{a.issue(3, "spiffe://cluster.local/ns/default/sa/app?a")}, codes.PermissionDenied, "want spiffe://"},
		"percent-encoding": {[]lab.Identity{a.issue(3, "spiffe://cluster.local/ns/de%66ault/sa/app")}, codes.PermissionDenied, "want spiffe://"},
		"of another roots": {[]lab.Identity{newAuthority(t).issue(3, "spiffe://cluster.local/ns/default/sa/app")}, codes.Unavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := r.dial(a.client(nil, test.identities...))
			defer client.Close()
			s := &peerStream{t: t}
			if test.code == codes.OK {
				r.openOn(client).ask(content.ClusterType)
				return
			}
			code, text := askOnce(r, client, s)
			if code != test.code || !strings.Contains(text, test.text) {
				t.Errorf("got %s %q, want %s with %q", code, text, test.code, test.text)
			}
		})
	}
}

// New certificates are used at once; open streams stay, and malformed files change nothing.
func TestSecureReloadsCertificates(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	files := a.write(dir, a.issue(2, ""))
	secure, err := NewTLS(files, nil)
	a.check(err)
	r := runWith(t, testLimits(), secure)
	r.Push(adstest.Mesh(1, "a"), model.Change{})
	proxy := a.issue(3, "spiffe://cluster.local/ns/default/sa/app")
	var before, after, broken int64
	client := r.dial(a.client(&before, proxy))
	defer client.Close()
	old := r.openOn(client)
	old.ack(old.ask(content.ClusterType))

	a.write(dir, a.issue(7, ""))
	a.check(secure.Reload())
	young := r.dial(a.client(&after, proxy))
	defer young.Close()
	r.openOn(young).ask(content.ClusterType)
	a.check(os.WriteFile(files.Key, []byte("half a k"), 0o600))
	if err := secure.Reload(); err == nil || !strings.Contains(err.Error(), files.Key) {
		t.Errorf("a broken key: %v, want an error that names %s", err, files.Key)
	}
	third := r.dial(a.client(&broken, proxy))
	defer third.Close()
	r.openOn(third).ask(content.ClusterType)
	if before != 2 || after != 7 || broken != 7 {
		t.Errorf("serials %d, %d and %d, want 2, then 7 and still 7", before, after, broken)
	}
	r.Push(adstest.Mesh(1, "a", "b"), model.Change{})
	old.next(content.ClusterType) // it was not dropped
}

func TestSecureRefusesOldTLS(t *testing.T) {
	a := newAuthority(t)
	secure, err := NewTLS(a.write(t.TempDir(), a.issue(2, "")), nil)
	a.check(err)
	r := runWith(t, testLimits(), secure)
	conn, err := r.listener.Dial()
	a.check(err)
	defer conn.Close()
	old := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	a.check(old.SetDeadline(time.Now().Add(adstest.Deadline)))
	if err := old.Handshake(); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.1: %v, want it refused", err)
	}
}

// A pipe in the place of a file is reported, and never read.
func TestCertificatesAreRegularFiles(t *testing.T) {
	a := newAuthority(t)
	files := a.write(t.TempDir(), a.issue(2, ""))
	pipe := filepath.Join(t.TempDir(), "pipe")
	a.check(syscall.Mkfifo(pipe, 0o600))
	for name, change := range map[string]func(*Certificates){
		"the certificate": func(f *Certificates) { f.Cert = pipe },
		"the key":         func(f *Certificates) { f.Key = pipe },
		"the roots":       func(f *Certificates) { f.CA = pipe },
	} {
		broken := files
		change(&broken)
		if _, err := NewTLS(broken, nil); err == nil || !strings.HasSuffix(err.Error(), pipe+": is a pipe, want a file") {
			t.Errorf("%s: %v, want that it is a pipe", name, err)
		}
	}
}
