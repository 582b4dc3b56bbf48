package proxy

import (
	"context"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/hashicorp/go-multierror"

	"github.com/pilotlight/pilotlight/agent/cgroup"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/safefile"
)

// Proxy is a configured proxy: it can be started, or return the bootstrap of a start.
type Proxy struct {
	config   Config
	env      identity.Environment
	derived  []identity.Derived
	params   bootstrap.Params
	workload workload
	enrolled *enrolled
}

// Host holds the data of the host that a proxy runs on.
type Host struct {
	Addresses  []netip.Addr // in the order of its interfaces
	Limits     cgroup.Limits
	Processors int
	Files      fs.FS // the host's root, for the downward API's files
}

// New reads the host's data and returns a proxy. Faults in config are returned as a *multierror.Error with all of them.
// A Proxy that is returned with an error cannot be started, but has the values that were computed.
func New(ctx context.Context, config Config) (*Proxy, error) {
	list := hostAddresses
	config.Identity.StandIn = config.standsIn()
	if config.AwaitAddress && config.Identity.AwaitsAddress() {
		list = func() ([]netip.Addr, error) { return awaitPrivate(ctx, hostAddresses) }
	}
	addresses, err := list()
	if err != nil {
		return &Proxy{config: config}, err
	}
	root := os.DirFS("/")
	config.Params.Statsd = resolveStatsd(ctx, config.Params.Statsd, net.DefaultResolver.LookupNetIP, config.Log)
	return Resolve(config, Host{Addresses: addresses, Limits: cgroup.ReadLimits(root), Processors: runtime.NumCPU(), Files: safefile.FS("/")})
}

// Resolve computes the identity of the proxy and the resources that Envoy may use. Its errors are those of New.
func Resolve(config Config, host Host) (*Proxy, error) {
	p := &Proxy{config: config, env: environ.Parse(config.Environ)}
	p.config.Ports.HostIP = p.env["HOST_IP"]
	p.config.Identity.StandIn = config.standsIn()
	given, err := identity.ReadProxyConfig(p.env)
	if err != nil {
		return p, multierror.Append(nil, err)
	}
	warnUnread(config.Log, given)
	limits := limitsOf(config, given, host.Limits, host.Processors)
	p.config.Envoy.Concurrency, p.config.Params.MemoryLimit = limits.workers, limits.memory
	params, derived, err := paramsOf(p.config, p.env, host)
	p.params, p.derived = params, append(limits.derived, derived...)
	if said, stray := identity.Stray(params.Node, params.Metadata.Namespace); err == nil && stray {
		config.Log.Warn("the proxy is not of the namespace that its id ends with: --domain or the metadata NAMESPACE decides",
			"id", params.Node.Name, "ends", said, "namespace", params.Metadata.Namespace, "domain", params.Node.Domain)
	}
	faults := multierror.Append(nil, err)
	p.workload, err = workloadOf(p.env, config.Ports.Status.Number, params.Node.IP, host.Addresses)
	return p, multierror.Append(faults, err).ErrorOrNil()
}

// Derived returns the settings that were not given, with the values that were computed for them.
func (p *Proxy) Derived() []identity.Derived { return p.derived }

// paramsOf returns the parameters of the bootstrap. Its error has every fault of identity and metadata.
func paramsOf(c Config, env identity.Environment, host Host) (bootstrap.Params, []identity.Derived, error) {
	id, derived, err := identity.Identify(c.Identity, env, host.Addresses)
	faults := multierror.Append(nil, err)
	var pod identity.Pod
	pod.Labels, err = c.Labels.readDownward(host.Files)
	faults = multierror.Append(faults, err)
	pod.Annotations, err = c.Annotations.readDownward(host.Files)
	faults = multierror.Append(faults, err)
	metadata, err := identity.Describe(id, pod, env, host.Addresses)
	if faults = multierror.Append(faults, err); faults.ErrorOrNil() != nil {
		return bootstrap.Params{}, derived, faults
	}
	p := c.Params
	p.Node, p.Metadata = id, identity.LikeIstio(metadata, id, env, c.metadata())
	if tls := p.Discovery.TLS; tls != nil && tls.SAN == "" {
		named := *tls
		named.SAN = identity.Discovery(p.Discovery.Address.Host, c.TrustDomain, env)
		p.Discovery.TLS = &named
	}
	p = withRelayIn(withSecretsIn(p, c.Dir.Path), c)
	if c.Source.Custom.Path != "" {
		return p, derived, nil // nothing is rendered
	}
	return p, derived, p.Validate()
}

// standsIn reports whether parts of the identity may be stand-ins. A custom bootstrap has its own node.
func (c Config) standsIn() bool { return c.Identity.StandIn || c.Source.Custom.Path != "" }

// metadata returns the settings that discovery receives, beside the identity.
func (c Config) metadata() identity.Settings {
	return identity.Settings{
		Registry: c.Identity.Registry, TrustDomain: c.TrustDomain, OwnBootstrap: c.Source.own(),
		StatusPort: c.Params.StatusPort, AdminPort: c.Params.AdminPort, PrometheusPort: c.Params.PrometheusPort, ReadinessPort: c.Params.ReadinessPort,
	}
}
