package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/status"
)

// serve opens the agent's own ports before Envoy starts, so that a busy one harms nobody. A busy port that was asked
// for is an error; one that is a default is not, since two agents with default settings may share a host.
func (p *proxy) serve() (stop func(), err error) {
	s := p.settings
	var servers []*http.Server
	stop = func() {
		for _, server := range servers {
			server.Close()
		}
	}
	for _, port := range []struct {
		flag    string
		host    string
		number  int
		handler http.Handler
	}{
		{"proxyAdminPort", "127.0.0.1", s.proxyAdminPort, status.Front(p.adminTransport, p.log)},
		{"statusPort", "", s.statusPort, status.Handler(p.document)},
	} {
		if port.number == 0 {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(port.host, strconv.Itoa(port.number)))
		switch {
		case err != nil && p.settings.given(port.flag):
			stop()
			return nil, fmt.Errorf("--%s: %w: name a free port, or 0 for none", port.flag, err)
		case err != nil:
			p.log.Warn("go on without a port", "flag", port.flag, "error", err)
			continue
		}
		server := &http.Server{Handler: port.handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
		servers = append(servers, server)
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				p.log.Error("serve", "flag", port.flag, "error", err)
			}
		}()
	}
	return stop, nil
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
	d := status.Document{Node: p.params.Node.String()}
	if s := p.status.Load(); s != nil {
		d.Supervisor, d.Pids, d.Health = *s, p.child.Pids(), p.child.Health()
	}
	if seen := p.certs[0].seen.Load(); seen != nil {
		d.Expires = seen.Infos[0].NotAfter
	}
	if facts, err := envoy.FactsOf(os.Getpid()); err == nil {
		d.Memory = facts.RSS
	}
	return d
}

// reap buries foreign orphans, which the kernel gives to PID 1.
func (p *proxy) reap(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	reaper := envoy.Reaper{Log: p.log}
	_ = reaper.Run(ctx, ended) // ends with ctx
}
