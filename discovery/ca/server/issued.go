package server

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery/ca"
)

const mostCounted = 200000 // certificates; further ones are not counted

type digest = [sha256.Size]byte

// issuedCertificates knows certificates that were signed here and live, and with which roots they came.
type issuedCertificates struct {
	live map[digest]issuedCertificate // by the certificate
}

type issuedCertificate struct {
	roots digest
	ends  time.Time
}

// signed counts a leaf in the place of the certificate that its caller has shown; nil for none.
func (c *issuedCertificates) signed(shown *x509.Certificate, leaf ca.Leaf, roots []byte, now time.Time) {
	if shown != nil {
		delete(c.live, sha256.Sum256(shown.Raw))
	}
	if block, _ := pem.Decode(leaf.Chain[0]); block != nil {
		c.put(block.Bytes, issuedCertificate{sha256.Sum256(roots), leaf.NotAfter}, now)
	}
}

// has counts a certificate whose owner says that it trusts roots: also one that was signed by another discovery.
func (c *issuedCertificates) has(cert *x509.Certificate, roots []byte, now time.Time) {
	c.put(cert.Raw, issuedCertificate{sha256.Sum256(roots), cert.NotAfter}, now)
}

func (c *issuedCertificates) put(cert []byte, one issuedCertificate, now time.Time) {
	if len(c.live) >= mostCounted {
		c.forget(now)
	}
	if key := sha256.Sum256(cert); len(c.live) < mostCounted || c.live[key] != (issuedCertificate{}) {
		c.live[key] = one
	}
}

// forget forgets those that have ended.
func (c *issuedCertificates) forget(now time.Time) {
	for key, one := range c.live {
		if !now.Before(one.ends) {
			delete(c.live, key)
		}
	}
}

func (c *issuedCertificates) count(roots []byte, now time.Time) (live, with int) {
	c.forget(now)
	wanted := sha256.Sum256(roots)
	for _, one := range c.live {
		if one.roots == wanted {
			with++
		}
	}
	return len(c.live), with
}

type metrics struct{ issued, refused *prometheus.CounterVec }

func newMetrics() metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	return metrics{
		counter("pilotlight_ca_issued_total", "Certificates that were signed, by what proved the identity.", "proof"),
		counter("pilotlight_ca_refused_total", "Requests for a certificate that were refused, by cause.", "cause"),
	}
}

var expiry = prometheus.NewDesc("pilotlight_ca_expiry_timestamp_seconds", "When the first certificate of the authority ends; no certificate outlives it.", nil, nil)

// Describe names the metrics of the authority.
func (d *Server) Describe(out chan<- *prometheus.Desc) {
	d.metrics.issued.Describe(out)
	d.metrics.refused.Describe(out)
	out <- expiry
}

// Collect sends the metrics of the authority.
func (d *Server) Collect(out chan<- prometheus.Metric) {
	d.metrics.issued.Collect(out)
	d.metrics.refused.Collect(out)
	if authority := d.Authority(); authority != nil {
		out <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(authority.Ends().Unix()))
	}
}
