package plane

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/explain"
	"github.com/pilotlight/pilotlight/discovery/page"
	"github.com/pilotlight/pilotlight/discovery/proxystatus"
	"github.com/pilotlight/pilotlight/discovery/validation"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// maxCertificate bounds a file of certificates, in bytes.
const maxCertificate = 1 << 20

// facts returns what the page shows now.
func (p *Plane) facts() page.Facts {
	now, found := time.Now(), p.reporter.Notes()
	return page.Facts{
		Now: now, Awaited: p.awaited(), Mesh: p.proxies.Mesh(), Proxies: proxystatus.Of(p.proxies.Clients(), found), Callers: p.proxies.Proxies(),
		Disconnected: p.proxies.Disconnected(now), Notes: found, Faults: p.faultLines(), Pushes: p.proxies.Pushes(), Certificates: p.certificates(),
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
	if p.authority == nil {
		return out
	}
	if authority := p.authority.server.Authority(); authority != nil {
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

// explain answers what becomes of one request in the mesh that proxies are served.
func (p *Plane) explain(values url.Values) (road any, text string, err error) {
	q, err := explain.ParseValues(values)
	if err != nil {
		return nil, "", err
	}
	var connected []explain.Connected
	for _, r := range p.proxies.Readers() {
		connected = append(connected, explain.Connected(r))
	}
	made, err := q.AnswerOf(p.proxies.Mesh(), connected)
	if err != nil {
		return nil, "", err
	}
	return made, made.Text(), nil
}

// validate judges files that a caller sends, beside what all sources have sent, for the proxies that are connected.
func (p *Plane) validate(ctx context.Context, text []byte) (any, error) {
	sent, err := validation.Received(text)
	if err != nil {
		return nil, err
	}
	files := make([]file.File, len(sent))
	for i, f := range sent {
		if files[i] = (file.File{Name: f.Name, Data: f.Data}); f.Error != "" {
			files[i].Err = errors.New(f.Error)
		}
	}
	groups, err := p.server.Groups(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for what is served: %w", err)
	}
	objects, problems := file.Check(files)
	live := validation.Live{
		Settings: p.server.Mesh, Groups: groups, Connected: p.proxies.Proxies(), Also: p.issuerNotes, Class: p.config.Ingress.Class, Now: time.Now(),
	}
	for _, s := range p.server.Statuses() {
		if s.Lacking || !whole([]discovery.SourceStatus{s}) {
			live.Late = append(live.Late, s.Name)
		}
	}
	return live.Judge(objects, file.WithConfigMaps(problems, files)), nil
}
