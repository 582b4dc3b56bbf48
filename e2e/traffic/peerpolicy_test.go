package traffic

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/e2e/lab"
)

// lets waits until a client is served at the ports of all protocols, or at none.
func (p *peers) lets(name string, want bool, config func(protocol string) *tls.Config) {
	p.T.Helper()
	for protocol := range p.ports {
		p.Check(lab.Eventually(lab.StopLimit, func() error {
			got, err := p.dial(protocol, config(protocol))
			served := err == nil && !strings.HasPrefix(got, "HTTP/1.1 403")
			if served != want {
				return fmt.Errorf("%s, port %q: %.40q, %v; served: want %v", name, protocol, got, err, want)
			}
			return nil
		}))
	}
}

// An AuthorizationPolicy reads who a client is from the certificate of mutual TLS, at a port of whatever protocol. Plain
// text, which PERMISSIVE still takes, is nobody: no positive condition is fulfilled, and each negative one.
func TestPoliciesOverMutualTLS(t *testing.T) {
	t.Parallel()
	p := newPeers(t)
	as := func(id string) func(string) *tls.Config {
		own := p.certificate(p.ca.Authority, id, func(*x509.Certificate) {})
		return func(protocol string) *tls.Config {
			if protocol == "HTTP" {
				return meshTLS(own, "istio-http/1.1", "istio", "http/1.1")
			}
			return meshTLS(own, "istio")
		}
	}
	plain := func(string) *tls.Config { return nil }
	client, other := as(meshClient), as("spiffe://cluster.local/ns/other/sa/client")
	p.lets("plain text", true, plain)
	p.lets("the client", true, client)
	for _, step := range []struct {
		rule                 string
		plain, client, other bool
	}{
		{"rules: [{from: [{source: {principals: [cluster.local/ns/default/sa/client]}}]}]", false, true, false},
		{"rules: [{from: [{source: {namespaces: [other]}}]}]", false, false, true},
		{"rules: [{from: [{source: {serviceAccounts: [client]}}]}]", false, true, false},
		{"action: DENY\nrules: [{from: [{source: {notNamespaces: [default]}}]}]", false, true, false},
		{"action: DENY\nrules: [{from: [{source: {principals: ['*']}}]}]", true, false, false},
		{"selector: {matchLabels: {app: another}}\nrules: []", true, true, true},
	} {
		p.Apply("AuthorizationPolicy readers", step.rule)
		p.lets("plain text under "+step.rule, step.plain, plain)
		p.lets("the client under "+step.rule, step.client, client)
		p.lets("another under "+step.rule, step.other, other)
	}
	p.Apply("PeerAuthentication default", "mtls: {mode: STRICT}")
	p.lets("plain text under STRICT", false, plain)
	p.lets("the client under STRICT", true, client)
	p.Apply("AuthorizationPolicy readers", "rules: [{from: [{source: {namespaces: [other]}}]}]")
	p.lets("the client under STRICT", false, client)
	p.lets("another under STRICT", true, other)
}
