package main

import (
	"fmt"
	"maps"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/node"
)

// settings are those of proxy, by pilot-agent's names.
type settings struct {
	serviceRegistry, ip, id, domain, trustDomain string
	serviceCluster, availabilityZone             string
	labelsFile, annotationsFile                  string

	configPath, binaryPath                            string
	customConfigFile, templateFile, bootstrapOverride string

	discoveryAddress, xdsVariant          string
	connectTimeout                        time.Duration
	controlPlaneAuthPolicy, pilotIdentity string
	certDir, ingressCertDir, certRotation string

	drainDuration, parentShutdownDuration, terminationDrainDuration time.Duration
	exitOnZeroActiveConnections                                     bool

	handover        string
	handoverTimeout time.Duration
	restartBudget   int
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

// resolve takes what was given, or every fault of it.
func (s *settings) resolve(sources setting.Sources) []error {
	var faults *multierror.Error
	s.origins, faults = s.table().Resolve(sources)
	if path := sources.Env[bootstrapVariable]; path != "" {
		s.templateFile, s.origins["templateFile"] = path, setting.Origin{Name: bootstrapVariable, Source: setting.Variable}
	}
	return append(faults.WrappedErrors(), s.contradictions()...)
}

// bootstrapVariable beats whatever else names a template: pilot-agent's way for an image to bring its own.
const bootstrapVariable = "ISTIO_BOOTSTRAP"

// contradictions are values that are allowed one by one, and not together.
func (s *settings) contradictions() (faults []error) {
	fault := func(name string, value any, want string) { faults = append(faults, s.origins.Fault(name, value, want)) }
	if s.parentShutdownDuration <= s.drainDuration {
		more := fmt.Sprintf("more than %s %s", s.origins["drainDuration"].Name, s.drainDuration)
		fault("parentShutdownDuration", s.parentShutdownDuration, more)
	}
	alone := "none beside " + s.origins["customConfigFile"].Name + ", which is used as it is"
	if s.customConfigFile != "" && s.templateFile != "" {
		fault("templateFile", s.templateFile, alone)
	}
	if s.customConfigFile != "" && s.bootstrapOverride != "" {
		fault("bootstrapOverride", s.bootstrapOverride, alone)
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

// set reports whether somebody set it, rather than left it at its default.
func (s *settings) set(name string) bool { return s.origins[name].Set() }

// with returns the settings and, in place of those that nobody gave, what was worked out for them.
func (s *settings) with(derived ...identity.Derived) (*settings, error) {
	out := *s
	out.origins = maps.Clone(s.origins)
	table := out.table()
	var faults *multierror.Error
	for _, d := range derived {
		faults = multierror.Append(faults, table.Derive(out.origins, d.Setting, d.Value, d.How))
	}
	return &out, faults.ErrorOrNil()
}

// given is what they say of the proxy's identity.
func (s *settings) given(role node.Role) identity.Given {
	return identity.Given{Role: role, Registry: s.serviceRegistry, IP: s.ip, Name: s.id, Domain: s.domain}
}

// presented is what they have discovery told of the proxy.
func (s *settings) presented() identity.Settings {
	return identity.Settings{
		Registry: s.serviceRegistry, TrustDomain: s.trustDomain, OwnBootstrap: s.customConfigFile != "" || s.templateFile != "",
		StatusPort: s.statusPort, AdminPort: s.proxyAdminPort, PrometheusPort: s.envoyPrometheusPort, ReadinessPort: s.envoyStatusPort,
	}
}

// ways are the values of --handover.
func ways() []string {
	return []string{string(agent.Auto), string(agent.Hot), string(agent.SideBySide)}
}
