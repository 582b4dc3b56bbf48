package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/ads"
	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/discovery/registry/cloudfoundry"
	"github.com/pilotlight/pilotlight/discovery/registry/consul"
	"github.com/pilotlight/pilotlight/discovery/registry/eureka"
	"github.com/pilotlight/pilotlight/internal/logger"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// settings are the settings of the command serve, by pilot-discovery's names.
type settings struct {
	plane.Config

	streams             int    // ads.Limits has another type
	otlpEndpoint        string // base URL of a collector; empty for that of the environment
	logLevel, logFormat string

	origins setting.Origins
}

// given holds the command line of a command that has all settings.
type given struct {
	flags setting.Flags
	file  string
}

// register adds the flags of every setting to a command.
func (g *given) register(cmd *cobra.Command) {
	table := newSettings().table()
	g.flags.Register(cmd.Flags(), table)
	cmd.Flags().StringVar(&g.file, "config", "", "YAML file of settings, by the names of the flags")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return table.Explain(err) })
}

// settings resolves flags, environment and file. It reports all faults together.
func (g *given) settings(env map[string]string) (*settings, error) {
	s := newSettings()
	sources := setting.Sources{Flags: g.flags.Given, Env: env, FileAt: g.file}
	if sources.FileAt == "" {
		sources.FileAt = env["PILOTLIGHT_CONFIG"]
	}
	var faults []error
	if sources.FileAt != "" {
		data, err := os.ReadFile(sources.FileAt)
		sources.File, faults = data, append(faults, err)
	}
	origins, wrong := s.table().Resolve(sources)
	s.origins = origins
	s.Limits.StreamsPerConnection = uint32(s.streams)
	faults = append(faults, wrong.WrappedErrors()...)
	return s, setting.Usage("discovery", append(faults, s.Faults(origins.Fault)...)...)
}

func newSettings() *settings {
	return &settings{Config: plane.Config{Limits: ads.DefaultLimits(), Patience: discovery.Patience{Linger: discovery.Linger}}}
}

// table returns every setting of serve. It is used for parsing, --help, --print-config and
// docs/cli/discovery_settings.md.
func (s *settings) table() setting.Table {
	return setting.Table{Prefix: "PILOTLIGHT_", Settings: slices.Concat(
		under("Configuration", s.configuration()),
		under("Registries", s.registrySettings()),
		under("Registries", s.cloudFoundry()),
		under("Registries", domainSettings(&s.Domains)),
		under("Kubernetes", s.kubernetes()),
		under("Kubernetes", s.ingresses()),
		under("Kubernetes", s.leader()),
		under("Webhooks", s.webhookSettings()),
		under("Addresses", s.addresses()),
		under("Certificates and secrets", s.credentials()),
		under("Certificates and secrets", s.issuers()),
		under("Authority", s.authority()),
		under("Pushes", s.pushes()),
		under("Limits of proxies", s.limitsOfProxies()),
		under("Observability", s.observability()),
	)}
}

func under(group string, settings []setting.Setting) []setting.Setting {
	for i := range settings {
		settings[i].Group = group
	}
	return settings
}

func (s *settings) configuration() []setting.Setting {
	return []setting.Setting{
		{
			Name: "configDir", Kind: setting.Path(&s.ConfigDir),
			Help: "directory, or file, of Istio objects, and of Services, EndpointSlices and Pods; directories below it count, hidden ones do not; " +
				"required without --registries and --kubernetesConfig",
		},
		{
			Name: "registries", Kind: setting.List(&s.Registries),
			Help: "registries whose services are served beside those of --configDir: CloudFoundry, Consul, Eureka, Kubernetes, and Mock, which has two fixed " +
				"services, hello and world, for trials",
		},
		domainSetting(&s.Domain),
		loopbackSetting(&s.Loopback),
		{Name: "jwksRoots", Kind: setting.Path(&s.KeySets.Roots), Help: "file of the roots of https servers from which discovery fetches the keys that a " +
			"RequestAuthentication names by jwksUri, PEM; if empty, those of the system"},
		{Name: "jwksInside", Default: "false", Kind: setting.Bool(&s.KeySets.Inside), Help: "fetch the keys of a jwksUri also at addresses that are not of the " +
			"Internet: loopback, private, link-local and the like. The writer of a RequestAuthentication can then have discovery ask what is there"},
		{
			Name: "meshConfig", Kind: setting.Path(&s.MeshConfig),
			Help: "file of Istio's MeshConfig; read again when it changes. Its configSources are further sources of objects: xds://host:port is another " +
				"discovery or an istiod, fs:///dir a directory",
		},
		{
			Name: "networksConfig", Kind: setting.Path(&s.NetworksConfig),
			Help: "file of Istio's MeshNetworks; read again when it changes",
		},
		{
			Name: "wipeDelay", Default: "30s", Kind: setting.Duration(&s.Patience.Wipe, 0, setting.Forever),
			Help: "serve more than half of the services of a source, or all objects of a kind, for this time after they are gone at once, " +
				"which may be an accident, such as a registry without its data; discovery release ends it; 0s removes them at once",
		},
		{
			Name: "optionalSources", Kind: setting.List(&s.Optional),
			Help: "registries, and addresses of MeshConfig's configSources such as xds://host:port, without which discovery becomes ready after " +
				"--registrySyncTimeout, as it does without other clusters; the other sources are required",
		},
		{
			Name: "registrySyncTimeout", Default: "30s", Kind: setting.Duration(&s.Patience.Sync, 0, setting.Forever),
			Help: "become ready after this time without a source of --optionalSources, or another cluster, that has not sent all it knows, as long as " +
				"another one has, and without webhooks whose certificate or configuration is missing; 0s waits for all",
		},
		{
			Name: "stateDir", Kind: setting.Path(&s.StateDir),
			Help: "directory in which discovery keeps what it serves of each source, without secrets, so that a start while a source is away serves " +
				"that; it is made if missing, and must belong to discovery's user alone. If empty, nothing is kept",
		},
		{
			Name: "stateMaxAge", Default: "24h", Kind: setting.Duration(&s.StateMaxAge, time.Second, setting.Forever),
			Help: "do not use what --stateDir has of a source that was away, or of a discovery that was, for longer than this. For as long after its start " +
				"proxies that come back keep what they have, if nothing is known of a source that may have had it",
		},
	}
}

func (s *settings) registrySettings() []setting.Setting {
	return []setting.Setting{
		{
			Name: "consulserverURL", Kind: setting.URL(&s.Consul.URL),
			Help: "Consul, as http://host:port; needed by --registries Consul. Consul's own environment variables are not read",
		},
		{
			Name: "consulTokenFile", Kind: setting.Path(&s.Consul.TokenFile),
			Help: "file of Consul's ACL token, read again for each request; it needs service:read and node:read",
		},
		{
			Name: "consulCACertFile", Kind: setting.Path(&s.Consul.CACert),
			Help: "roots of the certificate of Consul, PEM; if empty, those of the system",
		},
		{Name: "consulClientCertFile", Kind: setting.Path(&s.Consul.ClientCert), Help: "certificate that Consul asks for, PEM; read again for each connection"},
		{Name: "consulClientKeyFile", Kind: setting.Path(&s.Consul.ClientKey), Help: "its private key, PEM"},
		{
			Name: "consulNamespace", Kind: setting.Text(&s.Consul.Namespace, "a namespace of Consul Enterprise"),
			Help: "namespace of Consul Enterprise whose services are served; if empty, the default one",
		},
		{
			Name: "consulPartition", Kind: setting.Text(&s.Consul.Partition, "an admin partition of Consul Enterprise"),
			Help: "admin partition of Consul Enterprise; if empty, that of the agent at --consulserverURL",
		},
		{
			Name: "eurekaserverURL", Kind: setting.List(&s.Eureka.URLs),
			Help: "Eureka's servers, as http://host:8761/eureka, of Netflix's own http://host:8080/eureka/v2; needed by --registries Eureka. The first " +
				"that answers is asked",
		},
		{
			Name: "eurekaserverInterval", Default: "2s", Kind: setting.Duration(&s.Eureka.Interval, 100*time.Millisecond, setting.Forever),
			Help: "time between two questions for what has changed",
		},
	}
}

func (s *settings) addresses() []setting.Setting {
	return []setting.Setting{
		{Name: "grpcAddr", Default: ":15010", Kind: setting.Listen(&s.Addresses.GRPC, false), Help: "address of ADS"},
		{
			Name: "secureGRPCAddr", Default: ":15012", Kind: setting.Listen(&s.Addresses.SecureGRPC, false),
			Help: "address of ADS with mutual TLS, and of certificates; used when --tlsCertFile or --ca is set",
		},
		{
			Name: "foreignAgents", Default: "true", Kind: setting.Bool(&s.ForeignAgents),
			Help: "accept certificates at --secureGRPCAddr also from clients that are not agents or commands of this release: Istio's agent, an Envoy that " +
				"connects by itself, gRPC with xDS, browsers, older agents. A certificate that an agent has obtained or shown counts only from an agent",
		},
		{
			Name: "httpAddr", Default: ":8080", Kind: setting.Listen(&s.Addresses.HTTP, false),
			Help: "address of the page of the mesh at /, and of /ready, /v1/registration and /debug",
		},
		{
			Name: "monitoringAddr", Default: ":15014", Kind: setting.Listen(&s.Addresses.Monitoring, true),
			Help: "address of /metrics and /version",
		},
		{
			Name: "exposeDebug", Default: "false", Kind: setting.Bool(&s.ExposeDebug),
			Help: "answer /debug and /v1/registration to other hosts too, and control planes there that ask for configuration objects without TLS: these " +
				"show the whole mesh",
		},
	}
}

func (s *settings) credentials() []setting.Setting {
	return []setting.Setting{
		{
			Name: "tlsCertFile", Kind: setting.Path(&s.Certificates.Cert),
			Help: "the server's certificate, PEM; read again when it changes",
		},
		{Name: "tlsKeyFile", Kind: setting.Path(&s.Certificates.Key), Help: "its private key, PEM"},
		{Name: "caCertFile", Kind: setting.Path(&s.Certificates.CA), Help: "roots of the proxies' certificates, PEM"},
		{
			Name: "secretsDir", Kind: setting.Path(&s.SecretsDir),
			Help: "directory of the secrets that credentialName names, as NAMESPACE/NAME/tls.crt, tls.key and ca.crt; read again when it " +
				"changes. A secret is sent over mutual TLS to proxies of its namespace whose configuration names it; a private key only to " +
				"those of the service accounts that NAMESPACE/service-accounts or NAMESPACE/NAME/service-accounts lists; DestinationRules of other " +
				"namespaces use it where destination-rule-namespaces there lists them",
		},
		{
			Name: "plaintextSecrets", Default: "false", Kind: setting.Bool(&s.Limits.PlaintextSecrets),
			Help: "send secrets to proxies at 127.0.0.1 and ::1 without TLS too, for trials: every program on this host can then read every key",
		},
	}
}

func (s *settings) pushes() []setting.Setting {
	return []setting.Setting{
		{
			Name: "debounceAfter", Default: "100ms", Kind: setting.Duration(&s.Debounce.After, 0, setting.Forever),
			Help: "a single change is pushed at once; after a push the next one waits this long, or four times as long as the push took",
		},
		{
			Name: "debounceMax", Default: "1s", Kind: setting.Duration(&s.Debounce.Max, 0, setting.Forever),
			Help: "no change waits longer than this",
		},
	}
}

func (s *settings) limitsOfProxies() []setting.Setting {
	l, number := s.Limits, func(n any) string { return fmt.Sprint(n) }
	return []setting.Setting{
		{
			Name: "sendTimeout", Default: number(l.SendTimeout), Kind: setting.Duration(&s.Limits.SendTimeout, time.Millisecond, setting.Forever),
			Help: "disconnect a proxy that does not answer a response for this time",
		},
		{
			Name: "keepaliveMaxServerConnectionAge", Default: number(l.MaxConnectionAge),
			Kind: setting.Duration(&s.Limits.MaxConnectionAge, 0, setting.Forever),
			Help: "ask proxies to connect again after this time, give or take a tenth; 0s for never",
		},
		{
			Name: "shutdownDuration", Default: number(l.Shutdown), Kind: setting.Duration(&s.Limits.Shutdown, 0, setting.Forever),
			Help: "how long a stop may take; in this time proxies are sent to other replicas one by one",
		},
		{
			Name: "maxConnections", Default: "0", Kind: setting.Int(&s.Limits.Connections, 0, setting.NoLimit),
			Help: "connections of proxies at once; a further one closes a connection of the address that has most of them, first one without a " +
				"stream; 0 for as many as there are descriptors, less 160 for all else",
		},
		{
			Name: "maxRequestBytes", Default: number(l.MaxRequest), Kind: setting.Int(&s.Limits.MaxRequest, 1, setting.NoLimit),
			Help: "largest request of a proxy, in bytes",
		},
		{
			Name: "maxStreamsPerConnection", Default: number(l.StreamsPerConnection), Kind: setting.Int(&s.streams, 0, math.MaxUint32),
			Help: "streams that a proxy may have open on one connection",
		},
		{
			Name: "maxViewsPerIdentity", Default: number(l.ViewsPerIdentity), Kind: setting.Int(&s.Limits.ViewsPerIdentity, 0, setting.NoLimit),
			Help: "different configurations that the proxies of one certificate's identity, or without certificates of one address, may " +
				"make discovery hold; 0 for any number",
		},
		{
			Name: "maxNewStreamsPerSecond", Default: number(l.StreamsPerSecond), Kind: setting.Number(&s.Limits.StreamsPerSecond, 0),
			Help: "new streams of all proxies; further ones are refused, and come again; 0 for any number",
		},
	}
}

func (s *settings) observability() []setting.Setting {
	return []setting.Setting{
		{
			Name: "otlpEndpoint", Kind: setting.URL(&s.otlpEndpoint),
			Help: "send a trace of each push to this collector by OTLP over HTTP; if empty, to that of OTEL_EXPORTER_OTLP_ENDPOINT; if both are " +
				"empty, there are no traces",
		},
		{Name: "logLevel", Default: "info", Kind: setting.OneOf(&s.logLevel, logger.Levels...), Help: "least level of the log"},
		{Name: "logFormat", Default: "text", Kind: setting.OneOf(&s.logFormat, logger.Formats...), Help: "format of the log"},
	}
}

// domainSetting is the setting of the DNS domain of the mesh's services.
func domainSetting(to *model.Domain) setting.Setting {
	return setting.Setting{
		Name: "domain", Default: model.DefaultDomain.String(),
		Kind: setting.Parsed(to, "text", "a DNS domain without NAMESPACE.svc before it", model.ParseDomain).Such(model.DefaultDomain.String()),
		Help: "DNS domain of the cluster's services, which are NAME.NAMESPACE.svc.DOMAIN: of those of --registries Kubernetes, with all further clusters, " +
			"of --configDir, and of short names in objects; a sidecar needs the domain NAMESPACE.svc.DOMAIN, which injection gives it",
	}
}

// domainFlag is the flag of that name of the other commands.
type domainFlag struct{ model.Domain }

func (f *domainFlag) Type() string { return "text" }

func (f *domainFlag) Set(text string) (err error) {
	f.Domain, err = model.ParseDomain(text)
	return err
}

// addDomain adds the flag to a command.
func addDomain(cmd *cobra.Command, help string) *domainFlag {
	f := &domainFlag{model.DefaultDomain}
	cmd.Flags().Var(f, "domain", help)
	return f
}

const loopbackEndpoints = "loopbackEndpoints"

// loopbackSetting is the setting of a mesh whose programs are all on one machine.
func loopbackSetting(to *bool) setting.Setting {
	return setting.Setting{
		Name: loopbackEndpoints, Default: "false", Kind: setting.Bool(to),
		Help: "the whole mesh is on one machine: endpoints at loopback addresses such as 127.0.0.11 go to the proxies of every namespace, gateways too. " +
			"Otherwise they go to the sidecars of their own namespace alone, as Unix sockets and link-local addresses always do. 127.0.0.1, ::1 and " +
			"localhost never go to a gateway, and the ports and sockets of agents to no proxy",
	}
}

// addLoopback adds the flag of that name to another command.
func addLoopback(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool(loopbackEndpoints, false, "do not warn about endpoints that proxies get only where serve has this flag")
}

// domainSettings are the settings of the hosts that registries may give.
func domainSettings(to *plane.Domains) []setting.Setting {
	return []setting.Setting{
		{
			Name: "consulDomains", Default: consul.Domain, Kind: setting.List(&to.Consul),
			Help: "DNS domains of Consul, its domain and alt_domain: each service is served as NAME.service.DOMAIN in each of them. A host " +
				"that a Service of Kubernetes or a ServiceEntry has is never Consul's, unless it is below consul",
		},
		{
			Name: "eurekaDomains", Kind: setting.List(&to.Eureka),
			Help: "domains whose hosts Eureka may give, each with all below it; * for every host. Names without a dot are always served, below " +
				eureka.Suffix + ". A host that a Service of Kubernetes or a ServiceEntry has is never Eureka's",
		},
		{
			Name: "natsDomains", Default: "*", Kind: setting.List(&to.CloudFoundry),
			Help: "domains of a Cloud Foundry's routes, each with all below it; * for every host. A host that a Service of Kubernetes or a " +
				"ServiceEntry has is never Cloud Foundry's, nor one below svc.DOMAIN of --domain and below the domains of other registries",
		},
	}
}

func (s *settings) cloudFoundry() []setting.Setting {
	c := &s.CloudFoundry
	return []setting.Setting{
		{
			Name: "natsURL", Kind: setting.List(&c.Broker.URLs),
			Help: "NATS brokers of a Cloud Foundry, as nats://host:4222 or tls://host:4224; needed by --registries CloudFoundry. One that answers is used",
		},
		{
			Name: "natsCredentialsFile", Kind: setting.Path(&c.Broker.Credentials),
			Help: "file of USER:PASSWORD in one line, or of a user's JWT and seed, for --natsURL; read again for each connection",
		},
		{
			Name: "natsCACertFile", Kind: setting.Path(&c.Broker.CA),
			Help: "roots of the brokers' certificates, PEM; if empty, those of the system. TLS is used where it is given, with tls://, and " +
				"where a broker asks for it",
		},
		{Name: "natsClientCertFile", Kind: setting.Path(&c.Broker.Cert), Help: "certificate that the brokers ask for, PEM; read again for each connection"},
		{Name: "natsClientKeyFile", Kind: setting.Path(&c.Broker.Key), Help: "its private key, PEM"},
		{
			Name: "natsRegisterInterval", Default: cloudfoundry.DefaultInterval.String(),
			Kind: setting.Duration(&c.Interval, 100*time.Millisecond, setting.Forever),
			Help: "how often publishers are asked to announce each route. At the start routes are complete after this time: it is best below --registrySyncTimeout",
		},
		{
			Name: "natsPruneThreshold", Default: "120s", Kind: setting.Duration(&c.Threshold, 100*time.Millisecond, setting.Forever),
			Help: "drop a route's instance that was not announced for this time, unless it takes TLS or the broker is away",
		},
	}
}
