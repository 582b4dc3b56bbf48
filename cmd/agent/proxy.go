package main

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
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
			p.given = cmd.Flags().Changed
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
	given    func(flag string) bool // whether a flag was set, rather than left at its default
	params   bootstrap.Params
	log      *slog.Logger

	binary string // set by run
	child  *envoy.Proxy

	forked     chan struct{} // closed when the first Envoy was
	forkedOnce sync.Once

	status atomic.Pointer[agent.Status]
	certs  atomic.Pointer[cert.Observation]
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
		forked:   make(chan struct{}),
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
