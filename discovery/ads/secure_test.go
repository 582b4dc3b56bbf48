package ads

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// authority signs certificates of a test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	a := authority{t: t}
	a.key = a.newKey()
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	a.check(err)
	a.cert, err = x509.ParseCertificate(der)
	a.check(err)
	return a
}

func (a authority) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.check(err)
	return key
}

// issue makes a certificate for discovery.test, or for a URI.
func (a authority) issue(serial int64, uri string) tls.Certificate {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"discovery.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	if uri != "" {
		parsed, err := url.Parse(uri)
		a.check(err)
		template.URIs = []*url.URL{parsed}
	}
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	a.check(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write puts a server's files into dir.
func (a authority) write(dir string, c tls.Certificate) Certificates {
	a.t.Helper()
	files := Certificates{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "ca.pem")}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	a.check(err)
	for path, block := range map[string]*pem.Block{
		files.Cert: {Type: "CERTIFICATE", Bytes: c.Certificate[0]},
		files.Key:  {Type: "PRIVATE KEY", Bytes: key},
		files.CA:   {Type: "CERTIFICATE", Bytes: a.cert.Raw},
	} {
		a.check(os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return files
}

// client is what a proxy with a certificate dials with. seen, where it is not nil, gets the server's serial.
func (a authority) client(seen *int64, certificates ...tls.Certificate) credentials.TransportCredentials {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return credentials.NewTLS(&tls.Config{
		ServerName: "discovery.test", RootCAs: roots, Certificates: certificates,
		VerifyConnection: func(s tls.ConnectionState) error {
			if seen != nil {
				*seen = s.PeerCertificates[0].SerialNumber.Int64()
			}
			return nil
		},
	})
}

// A proxy's certificate must be of its node's namespace.
func TestSecureRefusesOtherNamespaces(t *testing.T) {
	a := newAuthority(t)
	secure, err := NewTLS(a.write(t.TempDir(), a.issue(2, "")))
	a.check(err)
	r := runWith(t, testLimits(), secure)
	r.Push(meshOf(1, "a"), model.Change{})
	for name, test := range map[string]struct {
		certificates []tls.Certificate
		code         codes.Code
		text         string
	}{
		"its own":          {[]tls.Certificate{a.issue(3, "spiffe://cluster.local/ns/default/sa/app")}, codes.OK, ""},
		"another's":        {[]tls.Certificate{a.issue(3, "spiffe://cluster.local/ns/other/sa/app")}, codes.PermissionDenied, "ns/other/sa/app"},
		"no SPIFFE ID":     {[]tls.Certificate{a.issue(3, "")}, codes.PermissionDenied, "want spiffe://TRUST_DOMAIN/ns/default"},
		"a broken ID":      {[]tls.Certificate{a.issue(3, "spiffe://cluster.local/ns/default")}, codes.PermissionDenied, "want spiffe://"},
		"no certificate":   {nil, codes.Unavailable, ""},
		"of another roots": {[]tls.Certificate{newAuthority(t).issue(3, "spiffe://cluster.local/ns/default/sa/app")}, codes.Unavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			client := r.dial(a.client(nil, test.certificates...))
			defer client.Close()
			s := &peerStream{t: t}
			if test.code == codes.OK {
				r.openOn(client).ask(clusterType)
				return
			}
			code, text := askOnce(r, client, s)
			if code != test.code || !strings.Contains(text, test.text) {
				t.Errorf("got %s %q, want %s with %q", code, text, test.code, test.text)
			}
		})
	}
}

// New certificates are used at once; streams that are open stay, and broken files change nothing.
func TestSecureReloadsCertificates(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	files := a.write(dir, a.issue(2, ""))
	secure, err := NewTLS(files)
	a.check(err)
	r := runWith(t, testLimits(), secure)
	r.Push(meshOf(1, "a"), model.Change{})
	proxy := a.issue(3, "spiffe://cluster.local/ns/default/sa/app")
	var before, after, broken int64
	client := r.dial(a.client(&before, proxy))
	defer client.Close()
	old := r.openOn(client)
	old.ack(old.ask(clusterType))

	a.write(dir, a.issue(7, ""))
	a.check(secure.Reload())
	young := r.dial(a.client(&after, proxy))
	defer young.Close()
	r.openOn(young).ask(clusterType)
	a.check(os.WriteFile(files.Key, []byte("half a k"), 0o600))
	if err := secure.Reload(); err == nil || !strings.Contains(err.Error(), files.Key) {
		t.Errorf("a broken key: %v, want an error that names %s", err, files.Key)
	}
	third := r.dial(a.client(&broken, proxy))
	defer third.Close()
	r.openOn(third).ask(clusterType)
	if before != 2 || after != 7 || broken != 7 {
		t.Errorf("serials %d, %d and %d, want 2, then 7 and still 7", before, after, broken)
	}
	r.Push(meshOf(1, "a", "b"), model.Change{})
	old.next(clusterType) // it was not dropped
}

func TestSecureRefusesOldTLS(t *testing.T) {
	a := newAuthority(t)
	secure, err := NewTLS(a.write(t.TempDir(), a.issue(2, "")))
	a.check(err)
	r := runWith(t, testLimits(), secure)
	conn, err := r.listener.Dial()
	a.check(err)
	defer conn.Close()
	old := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	a.check(old.SetDeadline(time.Now().Add(deadline)))
	if err := old.Handshake(); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.1: %v, want it refused", err)
	}
}
