package proxy

import (
	"context"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/enroll"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/status"
)

// enrolled gets and renews the workload's certificate; nil if others bring its files.
type enrolled struct{ *enroll.Enrollment }

// settle moves the certificate into the slot where configPath is open to others, and --certDir does not name another place.
func (p *Proxy) settle(slot *envoy.Slot) {
	dir, private := slot.Private()
	if p.config.Enrollment == nil || p.config.Enrollment.DirGiven || !private {
		return
	}
	moved := *p.config.Enrollment
	moved.Dir, moved.within = filepath.Join(dir, filepath.Base(moved.Dir)), dir
	own := p.config.Certificates[0]
	p.config.Enrollment = &moved
	p.config.Certificates = slices.Clone(p.config.Certificates)
	p.config.Certificates[0] = &cert.Set{Optional: own.Optional, NoRoots: own.NoRoots, Files: cert.Files{
		Chain: filepath.Join(moved.Dir, enroll.ChainFile), Key: filepath.Join(moved.Dir, enroll.KeyFile), Roots: filepath.Join(moved.Dir, enroll.RootsFile),
	}}
	p.config.Log.Info("the certificate is kept in the agent's own directory, since others may write to configPath", "dir", filepath.Join(slot.Name(), filepath.Base(moved.Dir)))
}

// openEnrollment opens the directory of the certificate. The authority is discovery, or one that shows the same identity.
func (p *Proxy) openEnrollment(c *carriage) (*enrolled, error) {
	e := p.config.Enrollment
	if e == nil {
		return nil, nil
	}
	expected := identity.Discovery(e.Host, p.config.TrustDomain, p.env)
	if t := p.params.Discovery.TLS; t != nil {
		expected = t.SAN
	}
	held, err := c.enrollmentLock()
	if err != nil {
		return nil, err
	}
	opened, err := enroll.Open(enroll.Config{
		Host: e.Host, Port: e.Port, Identity: expected, Roots: e.Roots, Token: e.Token, Dir: e.Dir, Within: e.within, Held: held, Log: p.config.Log,
	})
	if err != nil {
		return nil, err
	}
	return &enrolled{opened}, nil
}

// run renews the certificate until stop is called: it is needed until the last request. The next image gets the lock.
func (e *enrolled) run(ctx context.Context, c *carriage) (stop func()) {
	if e == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
		c.keepEnrollment(e)
		e.Close()
	}
}

// explain returns the fault of a certificate, and why there is no other one.
func (e *enrolled) explain(fault string) string {
	if e == nil || fault == "" || e.Fault() == "" {
		return fault
	}
	return fault + "; " + e.Fault()
}

// report adds to the workload's certificate why it is not renewed.
func (e *enrolled) report(certificates []status.Certificate) {
	if e == nil || len(certificates) == 0 {
		return
	}
	certificates[0].Fault, certificates[0].Renewal = e.explain(certificates[0].Fault), e.Fault()
}
