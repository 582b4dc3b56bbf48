package main

import (
	"time"

	"github.com/pilotlight/pilotlight/agent"
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
