package server

import (
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

// A certificate counts until it ends or is renewed, with the roots that came with it.
func TestCensus(t *testing.T) {
	c, now := &issuedCertificates{map[digest]issuedCertificate{}}, time.Now()
	leaf := func(name string, life time.Duration) (ca.Leaf, *x509.Certificate) {
		chain := [][]byte{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(name)})}
		return ca.Leaf{Chain: chain, NotAfter: now.Add(life)}, &x509.Certificate{Raw: []byte(name)}
	}
	counts := func(step string, at time.Duration, live, with int) {
		t.Helper()
		if l, w := c.count([]byte("both"), now.Add(at)); l != live || w != with {
			t.Errorf("%s: %d live, %d with the roots; want %d, %d", step, l, w, live, with)
		}
	}
	a, shown := leaf("a", time.Hour)
	b, _ := leaf("b", 2*time.Hour)
	c.signed(nil, a, []byte("one"), now)
	c.signed(nil, b, []byte("both"), now)
	counts("two", 0, 2, 1)
	next, _ := leaf("c", 2*time.Hour)
	c.signed(shown, next, []byte("both"), now)
	counts("one is renewed", 0, 2, 2)
	other := &x509.Certificate{Raw: []byte("of another discovery"), NotAfter: now.Add(time.Hour)}
	c.has(other, []byte("one"), now)
	counts("another has one", 0, 3, 2)
	c.has(other, []byte("both"), now)
	counts("another has both", 0, 3, 3)
	counts("they end", 2*time.Hour, 0, 0)
}
