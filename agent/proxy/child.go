package proxy

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/node"
)

// newChild returns the envoy.Proxy that runs the processes of Envoy.
// Newcomers are held where secrets are served.
func (p *Proxy) newChild(want desired, s *secrets, slot *envoy.Slot, process Process, judged func(), forked func()) *envoy.Proxy {
	c := p.config
	var gates envoy.Gates
	if socket := want.params.SecretsSocket; socket != "" {
		gates = envoy.Gates{Socket: socket, Open: s.server.Open, Shut: s.server.Shut}
	}
	return &envoy.Proxy{
		Redirection:       p.redirection(),
		Binary:            want.binary,
		Slot:              slot,
		HotRestart:        true,
		Options:           c.Envoy,
		Env:               withServiceName(c.Environ, c.Params.Cluster),
		Log:               c.Log,
		Output:            c.Log,
		Stdout:            process.Printed,
		Spare:             envoy.NewSpare(),
		Redirected:        p.redirected(),
		Gates:             gates,
		Records:           c.recordsAt(want.params.SecretsSocket),
		Patience:          c.Supervision.HandoverTimeout,
		Unintercepted:     p.params.Metadata.InterceptionMode == node.None,
		Discovery:         p.discovery(),
		CheckCertificates: func() error { return c.Certificates.Check(time.Now()) },
		Certificates: func(started time.Time) (string, time.Time, bool) {
			fault, ends, none := c.certificates(started)
			return p.enrolled.explain(fault), ends, none
		},
		Judged: judged,
		Fork: func(f func()) {
			process.Fork(f)
			forked()
		},
	}
}

// recordsAt returns the socket for records of failed requests whose cluster Envoy is to add to a bootstrap; empty for a rendered one,
// which has it.
func (c Config) recordsAt(socket string) string {
	if c.Source.Custom.Path == "" {
		return ""
	}
	return socket
}

// certificates returns the state of the workload's certificates for an Envoy that started at a time.
func (c Config) certificates(started time.Time) (fault string, ends time.Time, none bool) {
	return c.Certificates.Fault(), c.Certificates.Held(c.reads(started)), c.Certificates.None()
}

// reads returns when an Envoy that started at a time has read its certificates. One with a bootstrap of the user's own may
// read the files itself, at its start; every other one gets them from the agent, which has the last good ones: then it is
// the zero time.
func (c Config) reads(started time.Time) time.Time {
	if !c.Source.own() {
		return time.Time{}
	}
	return started
}

// redirected reports whether redirected traffic depends on listeners from discovery.
func (p *Proxy) redirected() bool {
	mode := p.params.Metadata.InterceptionMode
	return p.params.Node.Role == node.Sidecar && (mode == node.Redirect || mode == node.TProxy) && p.config.Source.Custom.Path == ""
}

// redirection returns how inbound traffic is said to be redirected; nil if it is not, or by a node that the agent did not write.
func (p *Proxy) redirection() *envoy.Redirection {
	b := p.params
	takes := identity.Redirected(b.Node, b.Metadata, b.StatusPort, b.AdminPort, b.PrometheusPort, b.ReadinessPort)
	if takes == nil || p.config.Source.Custom.Path != "" {
		return nil
	}
	return &envoy.Redirection{Takes: takes, Transparent: b.Metadata.InterceptionMode == node.TProxy}
}

// discovery returns the discovery server of the rendered bootstrap, and nothing for a custom bootstrap.
func (p *Proxy) discovery() envoy.Discovery {
	if p.config.Source.Custom.Path != "" {
		return envoy.Discovery{}
	}
	d := p.params.Discovery
	out := envoy.Discovery{Host: d.Host, Port: d.Port, TLS: d.TLS != nil}
	if d.TLS != nil {
		out.SAN = d.TLS.SAN
	}
	return out
}

// presented returns a function that queries which certificates Envoy has.
func presented(child *envoy.Proxy) func(ctx context.Context) (serials []string, answered bool) {
	return func(ctx context.Context) (serials []string, answered bool) {
		admin := child.Admin()
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
}

// withServiceName sets the service name for Envoy's spans, by OpenTelemetry's variable. A name in the workload's own
// environment takes precedence.
func withServiceName(own []string, service string) []string {
	const variable, name = "OTEL_RESOURCE_ATTRIBUTES", "service.name="
	attributes := environ.Parse(own)[variable]
	if strings.Contains(attributes, name) {
		return own
	}
	if attributes != "" {
		attributes += ","
	}
	return append(slices.Clone(own), variable+"="+attributes+name+url.PathEscape(service))
}
