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
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/cgroup"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/identity"
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
				return p.settings.table().Effective(cmd.OutOrStdout(), p.settings.origins)
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

	forked     chan struct{} // closed when the first Envoy was, or could not be
	forkedOnce sync.Once
	toldReady  sync.Once // the service manager

	status  atomic.Pointer[agent.Status]
	journal status.Journal
	askCh   chan agent.Ask
	certs   cert.Sets
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
	if wait && s.given(role).AwaitsAddress() {
		list = func() ([]netip.Addr, error) { return awaitPrivate(ctx, hostAddresses) }
	}
	addresses, err := list()
	if err != nil {
		return p, err
	}
	statsd := resolveStatsd(ctx, addressIn(s.statsdUDPAddress), net.DefaultResolver.LookupNetIP, p.log)
	config, err := identity.ReadProxyConfig(g.env)
	if err != nil {
		return p, usage(multierror.Append(nil, err))
	}
	warnUnread(p.log, config)
	p.hostIP = g.env["HOST_IP"]
	p.notifier = newNotifier(g.env, os.Getpid(), p.log)
	limits := s.limits(config, cgroup.ReadLimits(os.DirFS("/")), runtime.NumCPU())
	if p.settings, err = s.with(limits...); err != nil {
		return p, err
	}
	var derived []identity.Derived
	p.params, derived, err = p.settings.params(role, g.env, addresses, os.DirFS("/"), statsd)
	faults := multierror.Append(nil, err)
	p.workload, err = workloadOf(g.env, p.settings.statusPort, p.params.Node.IP, addresses)
	faults = multierror.Append(faults, err)
	p.settings, err = p.settings.with(derived...)
	return p, usage(multierror.Append(faults, err))
}

// warnUnread tells of what PROXY_CONFIG says in vain.
func warnUnread(log *slog.Logger, c identity.ProxyConfig) {
	keys, names := c.Unread()
	if len(keys) > 0 {
		log.Warn("keys of "+identity.ProxyConfigVariable+" are not read, use the agent's flags", "keys", keys)
	}
	if len(names) > 0 {
		log.Warn("proxyMetadata of "+identity.ProxyConfigVariable+" is read for "+identity.MetaPrefix+" names only, set others in the environment", "names", names)
	}
}

// limits works out what Envoy may use, where nobody set it. Every epoch must have the same, so it is done once.
func (s *settings) limits(c identity.ProxyConfig, l cgroup.Limits, processors int) (derived []identity.Derived) {
	if s.concurrency == 0 {
		workers, how := l.Workers(processors), fmt.Sprintf("%d processors, CPU limit %g", processors, l.CPUs)
		if n, said := c.Workers(processors); said {
			workers, how = n, "concurrency of "+identity.ProxyConfigVariable
		}
		derived = append(derived, identity.Derived{Setting: "concurrency", Value: strconv.Itoa(workers), How: how})
	}
	if s.memoryLimit == 0 && l.Memory != 0 {
		how := "nine tenths of the control group's limit, which the agent shares"
		derived = append(derived, identity.Derived{Setting: "memoryLimit", Value: strconv.FormatInt(l.Memory/10*9, 10), How: how})
	}
	return derived
}

// params are what the role's bootstrap depends on. It tells every fault of identity and metadata at once.
func (s *settings) params(role node.Role, env identity.Environment, addresses []netip.Addr, root fs.FS, statsd bootstrap.Address) (
	bootstrap.Params, []identity.Derived, error,
) {
	id, derived, err := identity.Identify(s.given(role), env, addresses)
	faults := multierror.Append(nil, err)
	var pod identity.Pod
	pod.Labels, err = s.readDownward(root, "labelsFile", s.labelsFile)
	faults = multierror.Append(faults, err)
	pod.Annotations, err = s.readDownward(root, "annotationsFile", s.annotationsFile)
	faults = multierror.Append(faults, err)
	metadata, err := identity.Describe(id, pod, env, addresses)
	if faults = multierror.Append(faults, err); faults.ErrorOrNil() != nil {
		return bootstrap.Params{}, derived, usage(faults)
	}
	p := s.bootstrap(id, identity.LikeIstio(metadata, id, env, s.presented()), env)
	p.Statsd = statsd
	if s.customConfigFile != "" {
		return p, derived, nil // nothing is rendered
	}
	return p, derived, usage(multierror.Append(nil, p.Validate()))
}
