package spiffe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"strings"
	"testing"
	"time"
)

// certify returns a certificate with these URIs, as they are.
func certify(t *testing.T, uris ...string) *x509.Certificate {
	t.Helper()
	var names []asn1.RawValue
	for _, uri := range uris {
		names = append(names, asn1.RawValue{Class: contextClass, Tag: uriTag, Bytes: []byte(uri)})
	}
	value, err := asn1.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: nil,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: value}},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestOf(t *testing.T) {
	const valid = "spiffe://cluster.local/ns/default/sa/app"
	for name, test := range map[string]struct {
		uris []string
		want string // part of the error, "" for none
	}{
		"one":                    {[]string{valid}, ""},
		"upper case in a path":   {[]string{"spiffe://cluster.local/ns/Default/sa/app_1.x"}, ""},
		"none":                   {nil, "0 URIs"},
		"two":                    {[]string{valid, "spiffe://cluster.local/ns/other/sa/app"}, "2 URIs"},
		"twice the same":         {[]string{valid, valid}, "2 URIs"},
		"and a web page":         {[]string{valid, "https://example.com/"}, "2 URIs"},
		"another scheme":         {[]string{"https://cluster.local/ns/default/sa/app"}, "begin with spiffe://"},
		"its scheme in capitals": {[]string{"SPIFFE://cluster.local/ns/default/sa/app"}, "begin with spiffe://"},
		"a query":                {[]string{valid + "?a=b"}, `segment "app?a=b"`},
		"an empty query":         {[]string{valid + "?"}, `segment "app?"`},
		"a fragment":             {[]string{valid + "#a"}, `segment "app#a"`},
		"an empty fragment":      {[]string{valid + "#"}, `segment "app#"`},
		"a user":                 {[]string{"spiffe://user@cluster.local/ns/default/sa/app"}, `"user@cluster.local"`},
		"an empty user":          {[]string{"spiffe://@cluster.local/ns/default/sa/app"}, `"@cluster.local"`},
		"a port":                 {[]string{"spiffe://cluster.local:80/ns/default/sa/app"}, `"cluster.local:80"`},
		"a domain in capitals":   {[]string{"spiffe://Cluster.local/ns/default/sa/app"}, `"Cluster.local"`},
		"percent-encoding":       {[]string{"spiffe://cluster.local/ns/my%2dns/sa/app"}, `segment "my%2dns"`},
		"an encoded slash":       {[]string{"spiffe://cluster.local/ns/default/sa/app%2fx"}, `segment "app%2fx"`},
		"a space":                {[]string{"spiffe://cluster.local/ns/default/sa/a%20b"}, `segment "a%20b"`},
		"an empty segment":       {[]string{"spiffe://cluster.local/ns//sa/app"}, `segment ""`},
		"a slash at its end":     {[]string{valid + "/"}, `segment ""`},
		"a dot":                  {[]string{"spiffe://cluster.local/ns/./sa/app"}, `segment "."`},
		"two dots":               {[]string{"spiffe://cluster.local/ns/../sa/app"}, `segment ".."`},
		"no domain":              {[]string{"spiffe:///ns/default/sa/app"}, "no trust domain"},
		"no path":                {[]string{"spiffe://cluster.local"}, "no path"},
		"a long domain":          {[]string{"spiffe://" + strings.Repeat("d", 256) + "/ns/default/sa/app"}, "256 bytes"},
		"a long one":             {[]string{valid + strings.Repeat("a", 2048)}, "at most 2048"},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := Of(certify(t, test.uris...))
			if test.want == "" {
				if err != nil || id.String() != test.uris[0] {
					t.Errorf("got %v, %v, want %s", id, err, test.uris[0])
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, %v, want an error with %q", id, err, test.want)
			}
		})
	}
}
