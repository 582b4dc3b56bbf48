package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/proxy"
	"github.com/pilotlight/pilotlight/internal/logger"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// settings are the settings of the command proxy, by pilot-agent's names.
type settings struct {
	serviceRegistry, ip, id, domain, trustDomain string
	serviceCluster, availabilityZone             string
	labelsFile, annotationsFile                  string

	configPath, binaryPath                            string
	customConfigFile, templateFile, bootstrapOverride string

	discoveryAddress, xdsVariant          string
	lastGood                              lastGood
	connectTimeout                        time.Duration
	controlPlaneAuthPolicy, pilotIdentity string
	certDir, ingressCertDir, certRotation string

	caAddress, caRoots, caToken string

	drainDuration, parentShutdownDuration          time.Duration
	terminationDrainDuration, minimumDrainDuration time.Duration
	exitOnZeroActiveConnections                    bool

	handover        string
	handoverTimeout time.Duration
	restartBudget   int
	upgradeOnChange bool
	restartBackOff  time.Duration

	concurrency                           int
	memoryLimit                           int64
	proxyLogLevel, proxyComponentLogLevel string
	outlierLogPath                        string
	runtimeValues                         map[string]string
	envoyArguments                        []string

	proxyAdminPort, statusPort, envoyPrometheusPort, envoyStatusPort      int
	zipkinAddress, openTelemetryAddress, statsdUDPAddress                 string
	envoyMetricsService, envoyAccessLogService                            string
	statsInclusionPrefixes, statsInclusionSuffixes, statsInclusionRegexps []string
	logLevel, logFormat                                                   string

	origins setting.Origins
}

// The values of --certRotation, --controlPlaneAuthPolicy and --xdsVariant.
const (
	rotateReload  = "reload"
	rotateRestart = "restart"
	authNone      = "NONE"
	authMutualTLS = "MUTUAL_TLS"
	xdsDelta      = "delta"
	xdsSotW       = "sotw"
)

const defaultConfigPath = "/etc/istio/proxy"

const longest = time.Hour // of drain and shutdown times

// bootstrapVariable takes precedence over every other setting of a template: by this variable of pilot-agent an image
// can bring its own.
const bootstrapVariable = "ISTIO_BOOTSTRAP"

// ways returns the values of --handover.
func ways() []string {
	return []string{string(agent.Auto), string(agent.Hot), string(agent.SideBySide)}
}

// resolve stores the given settings, or returns all their faults.
func (s *settings) resolve(sources setting.Sources) []error {
	var faults *multierror.Error
	s.origins, faults = s.table().Resolve(sources)
	if path := sources.Env[bootstrapVariable]; path != "" {
		s.templateFile, s.origins["templateFile"] = path, setting.Origin{Name: bootstrapVariable, Source: setting.Variable}
	}
	s.enrol()
	return append(faults.WrappedErrors(), s.contradictions()...)
}

// contradictions returns the faults of values that are allowed one by one, but not together.
func (s *settings) contradictions() (faults []error) {
	fault := func(name string, value any, want string) { faults = append(faults, s.origins.Fault(name, value, want)) }
	if s.parentShutdownDuration <= s.drainDuration {
		more := fmt.Sprintf("more than %s %s", s.origins["drainDuration"].Name, s.drainDuration)
		fault("parentShutdownDuration", s.parentShutdownDuration, more)
	}
	if s.caAddress == "" && (s.caRoots != "" || s.caToken != "") {
		fault("caAddress", `""`, "an address beside --caRoots and --caToken")
	}
	if s.caAddress != "" && s.caRoots == "" {
		fault("caRoots", `""`, "the roots of the authority at --caAddress")
	}
	alone := "none beside " + s.origins["customConfigFile"].Name + ", which is used as it is"
	if s.customConfigFile != "" && s.templateFile != "" {
		fault("templateFile", s.templateFile, alone)
	}
	if s.customConfigFile != "" && s.bootstrapOverride != "" {
		fault("bootstrapOverride", s.bootstrapOverride, alone)
	}
	if s.lastGood.config().On && s.xdsVariant == xdsSotW && s.origins["lastGood"].Set() {
		fault("lastGood", s.lastGood, "off beside "+s.origins["xdsVariant"].Name+" "+xdsSotW+": only delta tells which resources Envoy accepts")
	}
	for _, port := range []struct {
		name  string
		value int
		to    string
		leads int
	}{
		{"envoyPrometheusPort", s.envoyPrometheusPort, "proxyAdminPort", s.proxyAdminPort},
		{"envoyStatusPort", s.envoyStatusPort, "statusPort", s.statusPort},
	} {
		if port.value != 0 && port.leads == 0 {
			fault(port.name, port.value, "0 while --"+port.to+" is 0: that is where it leads")
		}
	}
	return faults
}

// print writes each setting and where it came from, with the computed values of those that were not given. It does not
// change the settings.
func (s *settings) print(w io.Writer, derived []identity.Derived) error {
	all := *s
	all.origins = maps.Clone(s.origins)
	table := all.table()
	for _, d := range derived {
		if err := table.Derive(all.origins, d.Setting, d.Value, d.How); err != nil {
			return err
		}
	}
	return table.Effective(w, all.origins)
}

// lastGood is a value of --lastGood: on, off, or how old the last good configuration may be.
type lastGood string

func parseLastGood(text string) (lastGood, error) {
	if text == "on" || text == "off" {
		return lastGood(text), nil
	}
	if age, err := time.ParseDuration(text); err != nil || age < time.Minute {
		return "", fmt.Errorf("%q: want on, off, or an age of at least 1m", text)
	}
	return lastGood(text), nil
}

func (l lastGood) config() proxy.LastGood {
	age, _ := time.ParseDuration(string(l)) // 0 for on and off
	return proxy.LastGood{On: l == "on" || age > 0, MaxAge: age}
}

// String returns the text.
func (l lastGood) String() string { return string(l) }

// table returns every setting of proxy. It is used for parsing, --help, --print-config and docs/cli/settings.md.
func (s *settings) table() setting.Table {
	return setting.Table{Prefix: "PILOTLIGHT_", Settings: slices.Concat(
		under("Identity", s.identity()),
		under("Paths", s.paths()),
		under("Control plane", s.controlPlane()),
		under("Life", s.life()),
		under("Envoy", s.envoy()),
		under("Telemetry", s.telemetry()),
	)}
}

func under(group string, settings []setting.Setting) []setting.Setting {
	for i := range settings {
		settings[i].Group = group
	}
	return settings
}

func (s *settings) identity() []setting.Setting {
	return []setting.Setting{
		{
			Name: "serviceregistry", Default: "Kubernetes", Kind: setting.OneOf(&s.serviceRegistry, identity.Registries()...),
			Help: "where the workload is registered: it decides the node's name and domain",
		},
		{
			Name: "ip", Also: []string{"INSTANCE_IP"}, Kind: setting.Text(&s.ip, "an address"),
			Help: "the proxy's address (default: the first private one of this host)",
		},
		{
			Name: "id",
			Kind: setting.Text(&s.id, "a name"),
			Help: "the proxy's name, unique in the mesh (default: by the registry)",
		},
		{
			Name: "domain",
			Kind: setting.Text(&s.domain, "a domain"),
			Help: "DNS suffix that short host names resolve in: in a cluster of discovery's --domain it is NAMESPACE.svc.DOMAIN, " +
				"and the proxy's namespace is NAMESPACE if POD_NAMESPACE is not set (default: by the registry; of Kubernetes with " +
				"the domain cluster.local)",
		},
		{
			Name: "trust-domain", Also: []string{"TRUST_DOMAIN"}, Default: "cluster.local", Kind: setting.Name(&s.trustDomain, "a domain"),
			Help: "the domain of SPIFFE identities: discovery must be of it under MUTUAL_TLS",
		},
		{
			Name: "serviceCluster", Default: "istio-proxy", Kind: setting.Name(&s.serviceCluster, "the name of a service"),
			Help: "the service that the workload belongs to: Envoy's node.cluster",
		},
		{
			Name: "availabilityZone", Kind: setting.Text(&s.availabilityZone, "region/zone/subzone"),
			Help: "where the proxy runs, as region, region/zone or region/zone/subzone: Envoy's node.locality",
		},
		{
			Name: "labelsFile", Default: "/etc/istio/pod/labels", Kind: setting.Path(&s.labelsFile),
			Help: "the pod's labels as the downward API writes them; the default one may be missing",
		},
		{
			Name: "annotationsFile", Default: "/etc/istio/pod/annotations", Kind: setting.Path(&s.annotationsFile),
			Help: "the pod's annotations as the downward API writes them; the default one may be missing",
		},
	}
}

func (s *settings) paths() []setting.Setting {
	return []setting.Setting{
		{
			Name: "configPath", Default: defaultConfigPath, Kind: setting.Name(&s.configPath, "a directory"),
			Help: "directory for Envoy's bootstrap, its admin socket and flight records",
		},
		{
			Name: "binaryPath", Default: "/usr/local/bin/envoy", Kind: setting.Name(&s.binaryPath, "a path, or a name to look for in PATH"),
			Help: "the Envoy to run; a change of it is a handover",
		},
		{
			Name: "customConfigFile", Kind: setting.Path(&s.customConfigFile, ".json", ".yaml", ".yml"),
			Help: "a bootstrap to use as it is instead of the role's own; a change of it is a handover",
		},
		{
			Name: "templateFile", Kind: setting.Path(&s.templateFile),
			Help: "a template to render instead of the role's own (docs/bootstrap.md); a change of it is a " +
				"handover. " + bootstrapVariable + " beats it",
		},
		{
			Name: "bootstrapOverride", Also: []string{"ISTIO_BOOTSTRAP_OVERRIDE"}, Kind: setting.Path(&s.bootstrapOverride),
			Help: "JSON or YAML that is merged over the rendered bootstrap, as Envoy merges; a change of it is a " +
				"handover",
		},
	}
}

func (s *settings) controlPlane() []setting.Setting {
	return []setting.Setting{
		{
			Name: "discoveryAddress", Default: "istio-pilot:15010", Kind: setting.Address(&s.discoveryAddress, false),
			Help: "where discovery serves gRPC",
		},
		{
			Name: "xdsVariant", Default: xdsDelta, Kind: setting.OneOf(&s.xdsVariant, xdsDelta, xdsSotW),
			Help: "how discovery tells of changes: what has changed, or the state of the world",
		},
		{
			Name: "lastGood", Default: "on", Kind: setting.Parsed(&s.lastGood, "age", "on, off, or an age of at least 1m", parseLastGood).Such("24h"),
			Help: "whether an Envoy that starts while discovery is away serves the configuration that this proxy accepted last: on, off, " +
				"or on if that is at most so old; delta xDS only",
		},
		{
			Name: "connectTimeout", Default: "1s", Kind: setting.Duration(&s.connectTimeout, time.Millisecond, 30*time.Second),
			Help: "what a connection to discovery may take",
		},
		{
			Name: "controlPlaneAuthPolicy", Default: authNone, Kind: setting.OneOf(&s.controlPlaneAuthPolicy, authNone, authMutualTLS),
			Help: "whether discovery is spoken to in plain text or by mutual TLS, with the files of certDir",
		},
		{
			Name: "pilotIdentity", Kind: setting.Text(&s.pilotIdentity, "a SPIFFE URI"),
			Help: "the identity that discovery must show under MUTUAL_TLS (default: istio-pilot's, in the " +
				"namespace of discoveryAddress: the second part of a name of two parts, as of discovery.istio-system, so that a machine " +
				"such as first.example needs this flag)",
		},
		{
			Name: "certDir", Default: "/etc/certs", Kind: setting.Name(&s.certDir, "a directory"),
			Help: "directory of cert-chain.pem, key.pem and root-cert.pem, watched for rotation; the default one " +
				"may be missing, but not under MUTUAL_TLS",
		},
		{
			Name: "caAddress", Kind: setting.Address(&s.caAddress, true),
			Help: "authority that signs the workload's certificate, as discovery serve --ca is; by default, if --caRoots is given, discoveryAddress, with 15012 for 15010. The agent makes the key, gets the certificate before it is ready, and " +
				"renews it. A name of two parts is NAME.NAMESPACE: see --pilotIdentity. discoveryAddress is then the same by default, controlPlaneAuthPolicy MUTUAL_TLS, and certDir a directory in configPath, or where that is open to others in the agent's own directory there",
		},
		{Name: "caRoots", Kind: setting.Path(&s.caRoots), Help: "roots of the authority's own certificate, PEM; read at each attempt"},
		{
			Name: "caToken", Kind: setting.Path(&s.caToken),
			Help: "file of the token for the first certificate, such as one of discovery token create; read at each attempt, and not needed while the certificate is valid",
		},
		{
			Name: "ingressCertDir", Default: "/etc/istio/ingress-certs", Kind: setting.Name(&s.ingressCertDir, "a directory"),
			Help: "directory of tls.crt and tls.key, watched in role ingress; the default one may be missing",
		},
		{
			Name: "certRotation", Default: rotateReload, Kind: setting.OneOf(&s.certRotation, rotateReload, rotateRestart),
			Help: "how Envoy takes new certificates: by SDS, proven, else by a handover; or always by a " +
				"handover",
		},
	}
}

func (s *settings) life() []setting.Setting {
	return []setting.Setting{
		{
			Name: "drainDuration", Default: "45s", Kind: setting.Seconds(&s.drainDuration, time.Second, longest),
			Help: "how long Envoy's draining listeners go on",
		},
		{
			Name: "parentShutdownDuration", Default: "1m", Kind: setting.Seconds(&s.parentShutdownDuration, time.Second, longest),
			Help: "how long a replaced Envoy may live on, longer than drainDuration",
		},
		{
			Name: "terminationDrainDuration", Default: "5s", Kind: setting.Duration(&s.terminationDrainDuration, 0, longest),
			Help: "how long the work in flight has when the agent stops",
		},
		{
			Name: "exitOnZeroActiveConnections", Also: []string{"EXIT_ON_ZERO_ACTIVE_CONNECTIONS"}, Default: "true", Kind: setting.Bool(&s.exitOnZeroActiveConnections),
			Help: "whether to stop as soon as nothing is in flight, rather than at the end of terminationDrainDuration",
		},
		{
			Name: "minimumDrainDuration", Also: []string{"MINIMUM_DRAIN_DURATION"}, Default: "0s", Kind: setting.Duration(&s.minimumDrainDuration, 0, longest),
			Help: "how long to serve on at least when the agent stops, also with nothing in flight, for clients that have not learnt of the stop yet; " +
				"terminationDrainDuration lasts no shorter",
		},
		{
			Name: "handover", Default: ways()[0], Kind: setting.OneOf(&s.handover, ways()...),
			Help: "how a new Envoy takes over: by hot restart, or side by side on the same ports",
		},
		{
			Name: "handoverTimeout", Default: "1m", Kind: setting.Duration(&s.handoverTimeout, time.Second, longest),
			Help: "how long a new Envoy has to become live before the old one serves on",
		},
		{
			Name: "restartBudget", Default: "10", Kind: setting.Int(&s.restartBudget, 0, setting.NoLimit),
			Help: "failures that are answered by a restart; five minutes of service refill it, longer service saves up to five times as many",
		},
		{
			Name: "restartBackOff", Default: "200ms", Kind: setting.Duration(&s.restartBackOff, time.Millisecond, 30*time.Second),
			Help: "delay before the first restart, doubled with each",
		},
		{
			Name: "upgradeOnChange", Default: "false", Kind: setting.Bool(&s.upgradeOnChange),
			Help: "replace the agent's program, under the same Envoy, when the file of its binary changes; SIGUSR2 and agent upgrade always do",
		},
	}
}

func (s *settings) envoy() []setting.Setting {
	return []setting.Setting{
		{
			Name: "concurrency", Default: "0", Kind: setting.Int(&s.concurrency, 0, setting.NoLimit),
			Help: "Envoy's worker threads (default 0: the processors that it may use, and the CPU limit)",
		},
		{
			Name: "memoryLimit", Default: "0", Kind: setting.Bytes(&s.memoryLimit),
			Help: "memory that Envoy must stay below, shedding load before (default 0: the memory limit of the " +
				"control group, if there is one)",
		},
		{
			Name: "proxyLogLevel", Default: "warning",
			Kind: setting.OneOf(&s.proxyLogLevel, envoyLevels()...), Help: "Envoy's log level",
		},
		{
			Name: "proxyComponentLogLevel", Kind: setting.Text(&s.proxyComponentLogLevel, "component:level pairs"),
			Help: `log levels of Envoy's components, "upstream:debug,config:trace"`,
		},
		{
			Name: "outlierLogPath",
			Kind: setting.Path(&s.outlierLogPath), Help: "file that Envoy logs ejected endpoints to",
		},
		{
			Name: "runtimeValues", Kind: setting.Pairs(&s.runtimeValues).Such("overload.global_downstream_max_connections=50000"),
			Help: "values of Envoy's static runtime layer",
		},
		{
			Name: "envoyArguments",
			Kind: setting.Words(&s.envoyArguments), Help: "further arguments of Envoy; those after -- follow them",
		},
	}
}

func (s *settings) telemetry() []setting.Setting {
	return []setting.Setting{
		{
			Name: "statusPort", Default: "15020",
			Kind: setting.Port(&s.statusPort), Help: "port of the agent's own status, on every address",
		},
		{
			Name: "proxyAdminPort", Default: "15000",
			Kind: setting.Port(&s.proxyAdminPort), Help: "loopback port that forwards to Envoy's admin",
		},
		{
			Name: "envoyPrometheusPort", Also: []string{"ENVOY_PROMETHEUS_PORT"}, Default: "0", Kind: setting.Port(&s.envoyPrometheusPort),
			Help: "port of an Envoy listener for Prometheus: /stats/prometheus of the epoch that serves",
		},
		{
			Name: "envoyStatusPort", Also: []string{"ENVOY_STATUS_PORT"}, Default: "0", Kind: setting.Port(&s.envoyStatusPort),
			Help: "port of an Envoy listener for probes: /healthz/ready of the agent, through Envoy's workers",
		},
		{Name: "zipkinAddress", Kind: setting.Address(&s.zipkinAddress, true), Help: "Zipkin's collector"},
		{
			Name: "openTelemetryAddress",
			Kind: setting.Address(&s.openTelemetryAddress, true), Help: "OpenTelemetry's collector, OTLP over gRPC",
		},
		{Name: "statsdUdpAddress", Kind: setting.Address(&s.statsdUDPAddress, true), Help: "statsd, over UDP"},
		{
			Name: "envoyMetricsService",
			Kind: setting.Address(&s.envoyMetricsService, true), Help: "a server of Envoy's metrics service, gRPC",
		},
		{
			Name: "envoyAccessLogService",
			Kind: setting.Address(&s.envoyAccessLogService, true),
			Help: "a server of Envoy's access log service, gRPC",
		},
		{
			Name: "statsInclusionPrefixes",
			Kind: setting.List(&s.statsInclusionPrefixes),
			Help: "prefixes of the names of stats that Envoy keeps (default: all)",
		},
		{
			Name: "statsInclusionSuffixes",
			Kind: setting.List(&s.statsInclusionSuffixes), Help: "suffixes of the names of stats that Envoy keeps",
		},
		{
			Name: "statsInclusionRegexps",
			Kind: setting.List(&s.statsInclusionRegexps),
			Help: "regular expressions, RE2, of the names of stats that Envoy keeps",
		},
		{
			Name: "logLevel", Default: "info",
			Kind: setting.OneOf(&s.logLevel, logger.Levels...), Help: "the agent's own log level",
		},
		{
			Name: "logFormat", Default: "text",
			Kind: setting.OneOf(&s.logFormat, logger.Formats...), Help: "the agent's own log format",
		},
	}
}

// envoyLevels returns Envoy's level names, and the two names of spdlog that Envoy had in 2018.
func envoyLevels() []string {
	return []string{"trace", "debug", "info", "warning", "warn", "error", "err", "critical", "off"}
}
