package main

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cgroup"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/agent/sds"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/node"
)

func proxyCommand(c command) *cobra.Command {
	g := given{command: c}
	printConfig := false
	cmd := &cobra.Command{
		Use:   "proxy [sidecar|ingress|router] [flags] [-- ENVOY-ARGUMENT...]",
		Short: "Launch Envoy and keep it alive until SIGTERM or SIGINT",
		Long: `Launch Envoy and keep it alive until SIGTERM or SIGINT. SIGHUP has every watched file looked at.

Each flag is an environment variable too, PILOTLIGHT_ and its name in capitals (--statusPort is PILOTLIGHT_STATUS_PORT),
and a key of the YAML file that --config names. A flag beats a variable, a variable the file, the file the default.

SIGTERM and SIGINT let requests in flight finish, for --terminationDrainDuration at most. A second one within two seconds
changes nothing, for many senders signal twice; a later one ends Envoy at once, and a third kills it.`,
		Example: `  agent proxy sidecar --ip 10.1.2.3 --id reviews-1.default --serviceregistry Other --discoveryAddress pilot:15010
  agent proxy router --config /etc/istio/agent.yaml --print-config
  agent proxy sidecar -- --component-log-level upstream:debug`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			survivePipes()
			hup := hangUps()
			g.arguments(cmd, args)
			s, role, err := g.settings()
			if err != nil {
				return err
			}
			p, err := newProxy(cmd.Context(), g, s, role, !printConfig)
			if printConfig {
				if err != nil {
					fmt.Fprintln(c.said, "agent: it would not start:", err)
				}
				return s.table().Effective(cmd.OutOrStdout(), s.origins)
			}
			if err != nil {
				return err
			}
			if cmd.Context().Err() != nil {
				return nil // it was asked to stop while it waited for an address
			}
			p.hup = hup
			return p.run(cmd.Context())
		},
	}
	g.register(cmd)
	cmd.Flags().BoolVar(&printConfig, "print-config", false,
		"print each setting's value and where it came from, and start nothing")
	return cmd
}

// proxy is the command with its settings resolved.
type proxy struct {
	command
	settings *settings
	params   bootstrap.Params
	workload workload
	log      *slog.Logger
	notifier notifier

	hostIP string // of the node, empty where nobody says it
	hup    <-chan os.Signal
	binary string // set by run
	child  *envoy.Proxy

	printed     *lossy.Writer // by Envoy, to stdout
	sds         *sds.Server
	servedFiles atomic.Pointer[[]sds.Seen] // what was last found of the files that Envoy asks for by SDS

	forked     chan struct{} // closed when the first Envoy was
	forkedOnce sync.Once
	toldReady  sync.Once // the service manager

	status  atomic.Pointer[agent.Status]
	journal status.Journal
	askCh   chan agent.Ask
	certs   []*certificateSet
}

// newProxy says who the proxy is and what it is told. Whoever only wants to know does not wait for an address.
func newProxy(ctx context.Context, g given, s *settings, role node.Role, wait bool) (*proxy, error) {
	p := &proxy{
		command:  g.command,
		settings: s,
		log:      newLogger(g.said, s.logLevel, s.logFormat),
		certs:    s.certificates(role),
		forked:   make(chan struct{}),
		askCh:    make(chan agent.Ask),
	}
	p.printed = lossy.NewWriter(g.stdout)
	g.said.OnFlow(p.tellDropped("stderr"))
	p.printed.OnFlow(p.tellDropped("stdout"))
	warnRetired(p.log, g.flags.retired.Given)
	list := hostAddresses
	if wait && s.waitsForAddress() {
		list = func() ([]netip.Addr, error) { return awaitPrivate(ctx, hostAddresses) }
	}
	addresses, err := list()
	if err != nil {
		return nil, err
	}
	p.resolveStatsd(ctx, net.DefaultResolver.LookupNetIP)
	config, err := readProxyConfig(g.env)
	if err != nil {
		return nil, usage(multierror.Append(nil, err))
	}
	config.warnUnread(p.log)
	s.takeProxyConfig(config, runtime.NumCPU())
	s.limit(cgroup.ReadLimits(os.DirFS("/")), runtime.NumCPU())
	p.hostIP = g.env["HOST_IP"]
	p.notifier = newNotifier(g.env, os.Getpid(), p.log)
	p.params, err = s.params(role, g.env, addresses, os.DirFS("/"))
	faults := multierror.Append(nil, err)
	p.workload, err = s.workload(g.env, addresses)
	return p, usage(multierror.Append(faults, err))
}

// limit works out what Envoy may use, where nobody said it. Every epoch must have the same, so it is done once.
func (s *settings) limit(l cgroup.Limits, processors int) {
	if s.concurrency == 0 {
		s.concurrency = l.Workers(processors)
		s.origins.Derive("concurrency", fmt.Sprintf("%d processors, CPU limit %g", processors, l.CPUs))
	}
	if s.memoryLimit == 0 && l.Memory != 0 {
		s.memoryLimit = l.Memory / 10 * 9
		s.origins.Derive("memoryLimit", "nine tenths of the control group's limit, which the agent shares")
	}
}

// params are what the role's bootstrap depends on. It tells every fault of identity and metadata at once.
func (s *settings) params(role node.Role, env environment, addresses []netip.Addr, root fs.FS) (bootstrap.Params, error) {
	id, err := identify(role, s, env, addresses)
	faults := multierror.Append(nil, err)
	var downward pod
	downward.labels, err = s.readDownward(root, "labelsFile", s.labelsFile)
	faults = multierror.Append(faults, err)
	downward.annotations, err = s.readDownward(root, "annotationsFile", s.annotationsFile)
	faults = multierror.Append(faults, err)
	metadata, err := describe(id, downward, env, addresses)
	if faults = multierror.Append(faults, err); faults.ErrorOrNil() != nil {
		return bootstrap.Params{}, usage(faults)
	}
	p := s.bootstrap(id, s.likeIstio(metadata, id, env), env)
	if s.customConfigFile != "" {
		return p, nil // nothing is rendered
	}
	return p, usage(multierror.Append(nil, p.Validate()))
}
