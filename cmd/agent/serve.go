package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/status"
)

// serve opens the agent's own ports and its socket in dir. A busy port that was asked for is an error, which ends the Envoy
// that was forked a moment ago, long before it listens; one that is a default is not, since two agents with default settings
// may share a host.
func (p *proxy) serve(dir string) (stop func(), err error) {
	var servers []*http.Server
	stop = func() {
		for _, server := range servers {
			server.Close()
		}
	}
	start := func(what string, listener net.Listener, server *http.Server) {
		servers = append(servers, server)
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				p.log.Error("serve", "at", what, "error", err)
			}
		}()
	}
	for _, port := range []struct {
		flag   string
		number int
		open   func(port int) (net.Listener, *http.Server, error)
	}{
		{"proxyAdminPort", p.settings.proxyAdminPort, p.openFront},
		{"statusPort", p.settings.statusPort, p.openStatus},
	} {
		if port.number == 0 {
			continue
		}
		listener, server, err := port.open(port.number)
		switch {
		case err != nil && p.settings.set(port.flag):
			stop()
			return nil, fmt.Errorf("--%s: %w: name a free port, or 0 for none", port.flag, err)
		case err != nil:
			p.log.Warn("go on without a port", "flag", port.flag, "error", err)
			continue
		}
		start("--"+port.flag, listener, server)
	}
	socket, err := status.ListenOwner(filepath.Join(dir, status.SocketName))
	if err != nil {
		p.log.Warn("go on without the owner's socket", "error", err)
		return stop, nil
	}
	start(status.SocketName, socket, status.NewFrontServer(status.Owner(p.statusConfig(), p.adminTransport), p.log))
	return stop, nil
}

func (p *proxy) openFront(port int) (net.Listener, *http.Server, error) {
	listener, err := status.ListenFront(port)
	return listener, status.NewFrontServer(status.Front(p.adminTransport, p.log), p.log), err
}

func (p *proxy) openStatus(port int) (net.Listener, *http.Server, error) {
	listener, onlyIPv4, err := status.Listen(port, status.NodeAddresses(os.DirFS("/"), p.hostIP))
	if err == nil && onlyIPv4 {
		p.log.Info("no IPv6 here: the status port is on IPv4 only", "port", port)
	}
	return listener, status.NewServer(status.Handler(p.statusConfig()), p.log), err
}

func (p *proxy) statusConfig() status.Config {
	return status.Config{
		Document:    p.document,
		AskCh:       p.askCh,
		Quit:        p.stop, // no signal: beside another one it would be the second, which hurries
		Envoy:       p.adminTransport,
		Application: p.workload.application,
		Probes:      p.workload.probes,
		Log:         p.log,
	}
}

// adminTransport leads to the admin of the epoch that serves, nil while none runs.
func (p *proxy) adminTransport() http.RoundTripper {
	if a := p.child.Admin(); a != nil {
		return a.Transport()
	}
	return nil
}

// document is what the status port tells.
func (p *proxy) document() status.Document {
	p.remember()
	d := p.readiness()
	d.Node, d.Pids, d.Past = p.params.Node.String(), p.child.Pids(), p.journal.Past()
	d.Dropped = []status.Dropped{{Stream: "stderr", Lines: p.said.Dropped()}, {Stream: "stdout", Lines: p.printed.Dropped()}}
	for _, set := range p.certs {
		d.Certificates = append(d.Certificates, certificateStatus(set)...)
	}
	d.Certificates = append(d.Certificates, p.toldFiles(d.Certificates)...)
	if facts, err := envoy.FactsOf(os.Getpid()); err == nil {
		d.Memory = facts.RSS
	}
	return d
}

// readiness is the part of the document that readiness depends on.
func (p *proxy) readiness() (d status.Document) {
	if s := p.status.Load(); s != nil {
		d.Supervisor, d.Health = *s, p.child.Health()
	}
	return d
}

// remember is called when readiness may have changed.
func (p *proxy) remember() {
	p.journal.Ready(time.Now(), func() (bool, string) {
		ready, reason := p.readiness().Ready()
		if ready {
			p.toldReady.Do(func() { p.notifier.tell("READY=1\nSTATUS=ready: Envoy serves") })
		}
		return ready, reason
	})
}

// certificateStatus is what is known of a set, nothing where the workload has none.
func certificateStatus(set *cert.Set) []status.Certificate {
	seen := set.Seen()
	if seen == nil {
		return nil
	}
	out := status.Certificate{Path: set.Chain, Serial: seen.Infos[0].Serial, Fault: seen.Fault()}
	if ends := seen.Infos[0].NotAfter; !ends.IsZero() {
		out.NotAfter = &ends
	}
	return []status.Certificate{out}
}
