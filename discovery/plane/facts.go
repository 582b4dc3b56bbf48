package plane

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"

	"github.com/pilotlight/pilotlight/discovery/page"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// maxCertificate bounds a file of certificates, in bytes.
const maxCertificate = 1 << 20

// facts returns what the page shows now.
func (p *Plane) facts() page.Facts {
	now, found := time.Now(), p.reporter.Notes()
	return page.Facts{
		Now: now, Awaited: p.awaited(), Mesh: p.proxies.Mesh(), Proxies: proxystatus.Of(p.proxies.Clients(), found), Callers: p.proxies.Proxies(),
		Gone: p.proxies.Gone(now), Notes: found, Faults: p.faultLines(), Pushes: p.proxies.Pushes(), Certificates: p.certificates(),
		InUse: p.proxies.CertificatesInUse(),
	}
}

// certificates returns those that discovery itself uses, from files and of its authority.
func (p *Plane) certificates() (out []page.Certificate) {
	for _, path := range []string{p.config.Certificates.Cert, p.config.Certificates.CA} {
		if path == "" {
			continue
		}
		c := page.Certificate{Name: path}
		text, err := safefile.Read(path, maxCertificate)
		if err == nil {
			c.From, c.Until, err = shortest(text)
		}
		if err != nil {
			c.Fault = err.Error()
		}
		out = append(out, c)
	}
	if p.office == nil {
		return out
	}
	if authority := p.office.desk.Authority(); authority != nil {
		from, until, err := shortest(authority.Roots())
		c := page.Certificate{Name: "the authority's root", From: from, Until: until}
		if err != nil {
			c.Fault = err.Error()
		}
		out = append(out, c)
	}
	return out
}

// shortest returns the life of the certificate in a text that ends first.
func shortest(text []byte) (from, until time.Time, err error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return from, until, err
		}
		if until.IsZero() || c.NotAfter.Before(until) {
			from, until = c.NotBefore, c.NotAfter
		}
	}
	if until.IsZero() {
		return from, until, errors.New("it has no certificate")
	}
	return from, until, nil
}
