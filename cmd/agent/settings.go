package main

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/agent"
)

// settings are the flags of proxy, by pilot-agent's names.
type settings struct {
	serviceRegistry, ip, id, domain, serviceCluster string

	configPath, binaryPath, customConfigFile string
	certDir, certRotation                    string

	discoveryAddress string
	connectTimeout   time.Duration

	drainDuration, parentShutdownDuration, terminationDrainDuration time.Duration

	handover        string
	handoverTimeout time.Duration
	restartBudget   int
	restartBackOff  time.Duration

	concurrency, proxyAdminPort, statusPort int
	proxyLogLevel, proxyComponentLogLevel   string
	logLevel, logFormat                     string
	extra                                   []string // Envoy's own arguments, after --
}

func (s *settings) register(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.serviceRegistry, "serviceregistry", "Kubernetes", "where the workload is registered: "+strings.Join(registries, ", "))
	f.StringVar(&s.ip, "ip", "", "the proxy's address (default $INSTANCE_IP, else the first private address)")
	f.StringVar(&s.id, "id", "", "the proxy's name, unique in the mesh (default by --serviceregistry)")
	f.StringVar(&s.domain, "domain", "", "DNS suffix that short host names resolve in (default by --serviceregistry)")
	f.StringVar(&s.serviceCluster, "serviceCluster", "istio-proxy", "the service that the workload belongs to: Envoy's node.cluster")

	f.StringVar(&s.configPath, "configPath", "/etc/istio/proxy", "directory for Envoy's bootstrap and admin socket")
	f.StringVar(&s.binaryPath, "binaryPath", "/usr/local/bin/envoy", "the Envoy to run")

	f.StringVar(&s.customConfigFile, "customConfigFile", "", "a bootstrap to use as it is, .json or .yaml, instead of the role's own; a change of it is a handover")
	f.StringVar(&s.certDir, "certDir", "/etc/certs", "directory of cert-chain.pem, key.pem and root-cert.pem, watched for rotation; it may be missing")
	f.StringVar(&s.certRotation, "certRotation", rotateReload, "how Envoy takes new certificates: reload (by its file SDS, proven, else by a handover) or restart (by a handover)")

	f.StringVar(&s.discoveryAddress, "discoveryAddress", "istio-pilot:15010", "host:port of discovery's gRPC")
	f.DurationVar(&s.connectTimeout, "connectTimeout", time.Second, "timeout of a connection to discovery, 1ms to 30s")

	f.DurationVar(&s.drainDuration, "drainDuration", 45*time.Second, "how long Envoy's draining listeners go on, whole seconds, at most 1h")
	f.DurationVar(&s.parentShutdownDuration, "parentShutdownDuration", time.Minute, "how long a replaced Envoy may live on, whole seconds, at most 1h, longer than --drainDuration")
	f.DurationVar(&s.terminationDrainDuration, "terminationDrainDuration", 5*time.Second, "how long the work in flight has when the agent stops, at most 1h")
	f.StringVar(&s.handover, "handover", string(agent.Auto), "how a new Envoy takes over: auto, hot (hot restart) or side-by-side")
	f.DurationVar(&s.handoverTimeout, "handoverTimeout", time.Minute, "how long a new Envoy has to become live before the old one serves on, 1s to 1h")
	f.IntVar(&s.restartBudget, "restartBudget", 10, "failures in a row that are answered by a restart")
	f.DurationVar(&s.restartBackOff, "restartBackOff", 200*time.Millisecond, "delay before the first restart, doubled with each, at most 30s")

	f.IntVar(&s.concurrency, "concurrency", 0, "Envoy's worker threads (default 0: from processors, affinity and the CPU limit)")
	f.IntVar(&s.proxyAdminPort, "proxyAdminPort", 15000, "loopback port that forwards to Envoy's admin, 0 for none")
	f.IntVar(&s.statusPort, "statusPort", 15020, "port of the agent's own status: /healthz/ready, /status, /metrics; 0 for none")
	f.StringVar(&s.proxyLogLevel, "proxyLogLevel", "warning", "Envoy's log level: "+strings.Join(envoyLevels, ", "))
	f.StringVar(&s.proxyComponentLogLevel, "proxyComponentLogLevel", "", `log levels of Envoy's components, "upstream:debug,config:trace"`)
	f.StringVar(&s.logLevel, "logLevel", "info", "the agent's own log level: debug, info, warn, error")
	f.StringVar(&s.logFormat, "logFormat", "text", "the agent's own log format: text or json")
}

// The values of --certRotation.
const (
	rotateReload  = "reload"
	rotateRestart = "restart"
)

var envoyLevels = []string{"trace", "debug", "info", "warning", "error", "critical", "off"}

const longest = time.Hour // of drain and shutdown times

// validate reports every fault at once. Each names its flag, what was given and what is allowed.
func (s *settings) validate() *multierror.Error {
	var faults *multierror.Error
	check := func(ok bool, flag string, given any, allowed string) {
		if !ok {
			faults = multierror.Append(faults, fmt.Errorf("--%s %v: want %s", flag, given, allowed))
		}
	}
	wholeSeconds := func(d time.Duration) bool { return d >= time.Second && d <= longest && d%time.Second == 0 }
	_, port, err := net.SplitHostPort(s.discoveryAddress)

	check(slices.Contains(registries, s.serviceRegistry), "serviceregistry", s.serviceRegistry, "one of "+strings.Join(registries, ", "))
	check(s.serviceCluster != "", "serviceCluster", `""`, "the name of a service")
	check(err == nil && isPort(port), "discoveryAddress", s.discoveryAddress, "host:port, such as istio-pilot:15010 or [::1]:15010")
	check(s.connectTimeout >= time.Millisecond && s.connectTimeout <= 30*time.Second, "connectTimeout", s.connectTimeout, "1ms to 30s")
	check(wholeSeconds(s.drainDuration), "drainDuration", s.drainDuration, "whole seconds, 1s to 1h")
	check(wholeSeconds(s.parentShutdownDuration), "parentShutdownDuration", s.parentShutdownDuration, "whole seconds, 1s to 1h")
	check(s.parentShutdownDuration > s.drainDuration, "parentShutdownDuration", s.parentShutdownDuration, "more than --drainDuration "+s.drainDuration.String())
	check(s.terminationDrainDuration >= 0 && s.terminationDrainDuration <= longest, "terminationDrainDuration", s.terminationDrainDuration, "0s to 1h")
	check(slices.Contains([]string{"", ".json", ".yaml", ".yml"}, filepath.Ext(s.customConfigFile)), "customConfigFile", s.customConfigFile, "a file that ends in .json, .yaml or .yml")
	check(slices.Contains([]string{rotateReload, rotateRestart}, s.certRotation), "certRotation", s.certRotation, "reload or restart")
	check(slices.Contains([]agent.Way{agent.Auto, agent.Hot, agent.SideBySide}, agent.Way(s.handover)), "handover", s.handover, "auto, hot or side-by-side")
	check(s.handoverTimeout >= time.Second && s.handoverTimeout <= longest, "handoverTimeout", s.handoverTimeout, "1s to 1h")
	check(s.statusPort >= 0 && s.statusPort <= 65535, "statusPort", s.statusPort, "1 to 65535, or 0 for none")
	check(s.restartBudget >= 0, "restartBudget", s.restartBudget, "0 or more")
	check(s.restartBackOff > 0 && s.restartBackOff <= 30*time.Second, "restartBackOff", s.restartBackOff, "more than 0s, at most 30s")
	check(s.concurrency >= 0, "concurrency", s.concurrency, "0 or more")
	check(s.proxyAdminPort >= 0 && s.proxyAdminPort <= 65535, "proxyAdminPort", s.proxyAdminPort, "1 to 65535, or 0 for none")
	check(slices.Contains(envoyLevels, s.proxyLogLevel), "proxyLogLevel", s.proxyLogLevel, "one of "+strings.Join(envoyLevels, ", "))
	check(slices.Contains([]string{"debug", "info", "warn", "error"}, s.logLevel), "logLevel", s.logLevel, "debug, info, warn or error")
	check(slices.Contains([]string{"text", "json"}, s.logFormat), "logFormat", s.logFormat, "text or json")
	return faults
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 1 && n <= 65535
}
