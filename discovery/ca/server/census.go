package server

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

const mostCounted = 200000 // certificates; further ones are not counted

type digest = [sha256.Size]byte

// census knows certificates that were signed here and live, and with which roots they came.
type census struct {
	live map[digest]counted // by the certificate
}

type counted struct {
	roots digest
	ends  time.Time
}

// signed counts a leaf in the place of the certificate that its caller has shown; nil for none.
func (c *census) signed(shown *x509.Certificate, leaf ca.Leaf, roots []byte, now time.Time) {
	if shown != nil {
		delete(c.live, sha256.Sum256(shown.Raw))
	}
	if block, _ := pem.Decode(leaf.Chain[0]); block != nil {
		c.put(block.Bytes, counted{sha256.Sum256(roots), leaf.NotAfter}, now)
	}
}

// has counts a certificate whose owner says that it trusts roots: also one that was signed by another discovery.
func (c *census) has(cert *x509.Certificate, roots []byte, now time.Time) {
	c.put(cert.Raw, counted{sha256.Sum256(roots), cert.NotAfter}, now)
}

func (c *census) put(cert []byte, one counted, now time.Time) {
	if len(c.live) >= mostCounted {
		c.forget(now)
	}
	if key := sha256.Sum256(cert); len(c.live) < mostCounted || c.live[key] != (counted{}) {
		c.live[key] = one
	}
}

// forget forgets those that have ended.
func (c *census) forget(now time.Time) {
	for key, one := range c.live {
		if !now.Before(one.ends) {
			delete(c.live, key)
		}
	}
}

func (c *census) count(roots []byte, now time.Time) (live, with int) {
	c.forget(now)
	wanted := sha256.Sum256(roots)
	for _, one := range c.live {
		if one.roots == wanted {
			with++
		}
	}
	return len(c.live), with
}
