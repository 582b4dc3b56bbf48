package relay

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// A server is discovery only if its certificate is of these roots and has this name.
func TestVerify(t *testing.T) {
	ca, err := lab.NewAuthority("mesh")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := lab.NewAuthority("foreign")
	if err != nil {
		t.Fatal(err)
	}
	const pilot = "spiffe://cluster.local/ns/istio-system/sa/pilot"
	chain := func(a *lab.Authority, change func(c *x509.Certificate)) (out []*x509.Certificate) {
		t.Helper()
		identity, err := a.IssueWith("pilot.test", 1, func(c *x509.Certificate) {
			uri, _ := url.Parse(pilot)
			c.URIs = []*url.URL{uri}
			if change != nil {
				change(c)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		for block, rest := pem.Decode(identity.Chain); block != nil; block, rest = pem.Decode(rest) {
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, c)
		}
		return out
	}
	for _, test := range []struct {
		name  string
		chain []*x509.Certificate
		roots *x509.CertPool
		san   string
		want  string // in the error; empty for none
	}{
		{"as it is", chain(ca, nil), ca.Pool(), pilot, ""},
		{"by DNS", chain(ca, nil), ca.Pool(), "pilot.test", ""},
		{"another name", chain(ca, nil), ca.Pool(), pilot + "-2", "discovery shows a certificate of ["},
		{"no name", chain(ca, nil), ca.Pool(), "", "nothing to check it by"},
		{"no roots", chain(ca, nil), nil, pilot, "nothing to check it by"},
		{"no certificate", nil, ca.Pool(), pilot, "shows no certificate"},
		{"a foreign root", chain(foreign, nil), ca.Pool(), pilot, "unknown authority"},
		{"expired", chain(ca, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), ca.Pool(), pilot, "expired"},
		{"of a client", chain(ca, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), ca.Pool(), pilot, "key usage"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := verify(test.chain, test.roots, test.san)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
