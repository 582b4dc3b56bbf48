package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/node"
)

func proxyCommand(c command) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "proxy [sidecar] [flags] [-- ENVOY-ARGUMENT...]",
		Short: "Launch Envoy and keep it alive until SIGTERM or SIGINT",
		Example: `  agent proxy sidecar --ip 10.1.2.3 --id reviews-1.default --serviceregistry Other --discoveryAddress pilot:15010
  agent proxy sidecar -- --component-log-level upstream:debug`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args, s.extra = args[:dash], args[dash:]
			}
			p, err := newProxy(c, s, args)
			if err != nil {
				return err
			}
			return p.run(cmd.Context())
		},
	}
	s.register(cmd.Flags())
	return cmd
}

// proxy is the command with its settings resolved.
type proxy struct {
	command
	settings *settings
	params   bootstrap.Params
	log      *slog.Logger
}

// newProxy resolves settings, arguments and environment. It reports every fault of a usage at once.
func newProxy(c command, s *settings, args []string) (*proxy, error) {
	role, err := roleOf(args)
	if faults := multierror.Append(s.validate(), err); faults.ErrorOrNil() != nil {
		return nil, usage(faults)
	}
	addresses, err := hostAddresses()
	if err != nil {
		return nil, err
	}
	env := parseEnvironment(c.environ)
	id, err := identify(role, s, env, addresses)
	faults := multierror.Append(nil, err)
	metadata, err := describe(id, env, addresses)
	if faults = multierror.Append(faults, err); faults.ErrorOrNil() != nil {
		return nil, usage(faults)
	}
	host, port, _ := net.SplitHostPort(s.discoveryAddress) // valid: validate has seen both
	number, _ := strconv.Atoi(port)
	return &proxy{
		command:  c,
		settings: s,
		log:      newLogger(c.stderr, s.logLevel, s.logFormat),
		params: bootstrap.Params{
			Node:           id,
			Cluster:        s.serviceCluster,
			Metadata:       metadata,
			DiscoveryHost:  host,
			DiscoveryPort:  number,
			ConnectTimeout: s.connectTimeout,
		},
	}, nil
}

// roleOf takes the only argument. Without it the proxy is a sidecar.
func roleOf(args []string) (node.Role, error) {
	switch len(args) {
	case 0:
		return node.Sidecar, nil
	case 1:
		role, err := node.ParseRole(args[0])
		if err == nil && role != node.Sidecar {
			return "", fmt.Errorf("role %s: has no bootstrap yet, only sidecar has", role)
		}
		return role, err
	}
	return "", fmt.Errorf("arguments %q: want one role, and Envoy's own arguments after --", args)
}

// run launches Envoy and returns when it is gone.
func (p *proxy) run(ctx context.Context) error {
	s := p.settings
	binary, err := envoy.Find(s.binaryPath)
	if err != nil {
		return fmt.Errorf("--binaryPath %s: %w", s.binaryPath, err)
	}
	child := &envoy.Proxy{
		Binary:    binary,
		Dir:       s.configPath,
		Bootstrap: p.bootstrap,
		Options: envoy.Options{
			Concurrency:       s.concurrency,
			LogLevel:          s.proxyLogLevel,
			ComponentLogLevel: s.proxyComponentLogLevel,
			DrainTime:         s.drainDuration,
			ParentShutdown:    s.parentShutdownDuration,
			Extra:             s.extra,
		},
		Output: p.stderr,
		Log:    p.log,
		Fork:   p.fork,
	}
	closeFront, err := p.serveFront(child)
	if err != nil {
		return err
	}
	defer closeFront()
	p.log.Info("proxy", "node", p.params.Node.String(), "envoy", binary, "discovery", s.discoveryAddress)
	supervisor := &agent.Agent{
		Settings: agent.Settings{
			RestartBudget:    s.restartBudget,
			BackOffBase:      s.restartBackOff,
			TerminationDrain: s.terminationDrainDuration,
		},
		Proxy: child,
		Log:   p.log,
		Seed:  rand.Uint64(),
	}
	return supervisor.Run(ctx)
}

func (p *proxy) bootstrap(epoch int) ([]byte, error) {
	params := p.params
	params.AdminSocket = envoy.AdminSocket(p.settings.configPath, epoch)
	return bootstrap.Render(params)
}

// serveFront opens --proxyAdminPort before Envoy starts, so that a busy port harms nobody.
func (p *proxy) serveFront(child *envoy.Proxy) (stop func() error, err error) {
	if p.settings.proxyAdminPort == 0 {
		return func() error { return nil }, nil
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.settings.proxyAdminPort)))
	if err != nil {
		return nil, fmt.Errorf("--proxyAdminPort: %w: name a free port, or 0 for none", err)
	}
	admin := func() http.RoundTripper {
		if a := child.Admin(); a != nil {
			return a.Transport()
		}
		return nil
	}
	server := &http.Server{Handler: status.Front(admin, p.log), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); err != http.ErrServerClosed {
			p.log.Error("serve admin port", "error", err)
		}
	}()
	return server.Close, nil
}
