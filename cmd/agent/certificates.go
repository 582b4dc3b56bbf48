package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
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
	absent   atomic.Bool
	seen     atomic.Pointer[cert.Observation]
}

// certificates are the sets of a role: the workload's identity, by pilot-agent's names, and at an ingress what it shows
// to the world.
func (s *settings) certificates(role node.Role) []*certificateSet {
	sets := []*certificateSet{{Files: s.controlPlaneCertificates(), optional: !s.set("certDir")}}
	if role == node.Ingress {
		in := func(name string) string { return filepath.Join(s.ingressCertDir, name) }
		files := cert.Files{Chain: in("tls.crt"), Key: in("tls.key")}
		sets = append(sets, &certificateSet{Files: files, optional: !s.set("ingressCertDir")})
	}
	return sets
}

func (s *settings) controlPlaneCertificates() cert.Files {
	in := func(name string) string { return filepath.Join(s.certDir, name) }
	return cert.Files{Chain: in("cert-chain.pem"), Key: in("key.pem"), Roots: in("root-cert.pem")}
}

func (c *certificateSet) dir() string { return filepath.Dir(c.Chain) }

// readFiles reads chain, key and roots. Of a file that is missing, or that the set does not have, it returns nil.
func readFiles(files cert.Files) (contents [3][]byte, err error) {
	for i, path := range []string{files.Chain, files.Key, files.Roots} {
		if path == "" {
			continue
		}
		data, err := cert.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return contents, fmt.Errorf("read certificate: %w", err)
		}
		contents[i] = data
	}
	return contents, nil
}

// check reads them anew. A workload without certificates has nothing to check.
func (c *certificateSet) check(now time.Time) error {
	contents, err := readFiles(c.Files)
	if err != nil {
		return err
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

// certificateFault is what the last look found. What has not been looked at is not known to be good.
func (p *proxy) certificateFault() string {
	for _, set := range p.certs {
		if fault := set.fault(); fault != "" {
			return fault
		}
	}
	return ""
}

func (c *certificateSet) fault() string {
	seen := c.seen.Load()
	switch {
	case c.absent.Load():
		return ""
	case seen == nil:
		return "the certificates in " + c.dir() + " have not been looked at yet"
	case seen.Err != nil:
		return seen.Err.Error()
	case len(seen.Missing) == len(c.Paths()) && c.optional:
		return "" // a default directory that holds something else
	case len(seen.Missing) > 0:
		return "missing: " + strings.Join(seen.Missing, ", ")
	}
	return ""
}

// rotate observes a set. Whatever Envoy does not take by itself becomes a handover: its new hash is sent as what an
// epoch shall run with.
func (p *proxy) rotate(ctx context.Context, set *certificateSet, ticks <-chan struct{}, rotations chan<- string) {
	for set.optional && missing(set.dir()) {
		set.absent.Store(true)
		select {
		case <-ctx.Done():
			return
		case <-ticks: // its directory is watched though it is not there
		}
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
		set.absent.Store(false)
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

func missing(path string) bool {
	_, err := os.Stat(path)
	return err != nil
}

// taken proves that Envoy presents a new certificate where it presented the one before.
func (p *proxy) taken(ctx context.Context, before, now cert.Observation) bool {
	if p.settings.certRotation == rotateRestart {
		return false
	}
	old, new := before.Infos[0].Serial, now.Infos[0].Serial
	deadline := time.Now().Add(proofLimit)
	for {
		serials, answered := p.presented(ctx)
		switch usesOld := slices.Contains(serials, old); {
		case !answered && time.Now().Before(deadline): // a handover may be under way
		case !answered:
			p.log.Warn("Envoy does not say which certificates it has, handing over", "serial", new)
			return false
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

// presented asks Envoy which certificates it has. No answer is no proof of anything.
func (p *proxy) presented(ctx context.Context) (serials []string, answered bool) {
	admin := p.child.Admin()
	if admin == nil {
		return nil, false
	}
	certificates, err := admin.Certificates(ctx)
	if err != nil {
		return nil, false
	}
	for _, c := range certificates {
		serials = append(serials, c.Serial)
	}
	return serials, true
}
