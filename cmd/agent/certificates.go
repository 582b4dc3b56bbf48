package main

import (
	"context"
	"path/filepath"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/node"
)

// certificates are the sets of a role: the workload's identity, by pilot-agent's names, and at an ingress what it shows
// to the world.
func (s *settings) certificates(role node.Role) cert.Sets {
	sets := cert.Sets{{Files: s.controlPlaneCertificates(), Optional: !s.set("certDir")}}
	if role == node.Ingress {
		in := func(name string) string { return filepath.Join(s.ingressCertDir, name) }
		files := cert.Files{Chain: in("tls.crt"), Key: in("tls.key")}
		sets = append(sets, &cert.Set{Files: files, Optional: !s.set("ingressCertDir")})
	}
	return sets
}

func (s *settings) controlPlaneCertificates() cert.Files {
	in := func(name string) string { return filepath.Join(s.certDir, name) }
	return cert.Files{Chain: in("cert-chain.pem"), Key: in("key.pem"), Roots: in("root-cert.pem")}
}

// proof is how Envoy is asked whether it has taken a new certificate.
func (p *proxy) proof() cert.Proof {
	return cert.Proof{Never: p.settings.certRotation == rotateRestart, Presented: p.presented, Log: p.log}
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
