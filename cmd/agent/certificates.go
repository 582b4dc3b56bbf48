package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/node"
)

// proofLimit is how long Envoy has to present a new certificate: it takes 2 to 40 ms when it sees the change.
const (
	proofLimit    = 5 * time.Second
	proofInterval = 20 * time.Millisecond
)

// certificateSet is files that belong together, and what was last seen of them.
type certificateSet struct {
	cert.Files
	optional bool // its directory is a default: where it is missing, the workload has no such certificates
	seen     atomic.Pointer[cert.Observation]
}

// certificates are the sets of a role: the workload's identity, by pilot-agent's names, and at an ingress what it shows
// to the world.
func (s *settings) certificates(role node.Role) []*certificateSet {
	sets := []*certificateSet{{Files: s.controlPlaneCertificates(), optional: !s.given("certDir")}}
	if role == node.Ingress {
		in := func(name string) string { return filepath.Join(s.ingressCertDir, name) }
		files := cert.Files{Chain: in("tls.crt"), Key: in("tls.key")}
		sets = append(sets, &certificateSet{Files: files, optional: !s.given("ingressCertDir")})
	}
	return sets
}

func (s *settings) controlPlaneCertificates() cert.Files {
	in := func(name string) string { return filepath.Join(s.certDir, name) }
	return cert.Files{Chain: in("cert-chain.pem"), Key: in("key.pem"), Roots: in("root-cert.pem")}
}

func (c *certificateSet) dir() string { return filepath.Dir(c.Chain) }

// check reads them anew. A workload without certificates has nothing to check.
func (c *certificateSet) check(now time.Time) error {
	var contents [3][]byte
	for i, path := range []string{c.Chain, c.Key, c.Roots} {
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("read certificate: %w", err)
		}
		contents[i] = data
	}
	if contents[0] == nil && contents[1] == nil {
		return nil
	}
	if _, err := cert.Check(contents[0], contents[1], contents[2], now); err != nil {
		return fmt.Errorf("check certificates in %s: %w", c.dir(), err)
	}
	return nil
}

// checkCertificates looks at every set before an epoch is started with it.
func (p *proxy) checkCertificates() error {
	for _, set := range p.certs {
		if err := set.check(time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// certificateFault is what the last look found.
func (p *proxy) certificateFault() string {
	for _, set := range p.certs {
		if seen := set.seen.Load(); seen != nil && seen.Err != nil {
			return seen.Err.Error()
		}
	}
	return ""
}

// rotate observes a set. Whatever Envoy does not take by itself becomes a handover: its new hash is sent as what an
// epoch shall run with.
func (p *proxy) rotate(ctx context.Context, set *certificateSet, ticks <-chan struct{}, rotations chan<- string) {
	if _, err := os.Stat(set.dir()); err != nil && set.optional {
		return
	}
	observations := make(chan cert.Observation)
	loop := cert.Loop{Sets: []cert.Files{set.Files}, Recheck: recheck, Log: p.log}
	go func() {
		defer close(observations)
		_ = loop.Run(ctx, ticks, observations) // ends with ctx
	}()
	var last cert.Observation
	first := true
	for o := range observations {
		set.seen.Store(&o)
		if o.Err != nil || len(o.Missing) > 0 || o.Hash == last.Hash {
			continue // Envoy keeps what it has
		}
		before := last
		last = o
		if !first && !p.taken(ctx, before, o) {
			select {
			case rotations <- o.Hash:
			case <-ctx.Done():
			}
		}
		first = false
	}
}

// taken proves that Envoy presents a new certificate where it presented the one before.
func (p *proxy) taken(ctx context.Context, before, now cert.Observation) bool {
	if p.settings.certRotation == rotateRestart {
		return false
	}
	old, new := before.Infos[0].Serial, now.Infos[0].Serial
	deadline := time.Now().Add(proofLimit)
	for {
		serials := p.presented(ctx)
		switch usesOld := slices.Contains(serials, old); {
		case old == new:
			return !usesOld // its key or the roots have changed, of which Envoy does not tell
		case slices.Contains(serials, new):
			p.log.Info("certificate rotated", "serial", new)
			return true
		case time.Now().Before(deadline):
		case !usesOld:
			return true // Envoy has no use for these files
		default:
			p.log.Warn("Envoy has not taken the new certificate, handing over", "serial", new, "presents", serials)
			return false
		}
		select {
		case <-ctx.Done():
			return true
		case <-time.After(proofInterval):
		}
	}
}

func (p *proxy) presented(ctx context.Context) (serials []string) {
	admin := p.child.Admin()
	if admin == nil {
		return nil
	}
	certificates, err := admin.Certificates(ctx)
	if err != nil {
		return nil
	}
	for _, c := range certificates {
		serials = append(serials, c.Serial)
	}
	return serials
}

// writeSecrets writes the file-SDS documents that the bootstrap refers to. They name certificates, and hold none.
func (p *proxy) writeSecrets() (remove func(), err error) {
	files, err := bootstrap.SecretFiles(p.params)
	if err != nil {
		return nil, err
	}
	remove = func() {
		for _, f := range files {
			os.Remove(f.Path)
		}
	}
	for _, f := range files {
		if err := os.WriteFile(f.Path, f.Data, 0o600); err != nil {
			remove()
			return nil, fmt.Errorf("write secrets of discovery: %w", err)
		}
	}
	return remove, nil
}
