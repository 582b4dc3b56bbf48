package main

import (
	"cmp"
	"encoding/json"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/node"
)

// bootstrap joins who the proxy is with what it was told. What Envoy reads beside its bootstrap is in dir.
func (s *settings) bootstrap(id node.ID, metadata node.Metadata, env identity.Environment) bootstrap.Params {
	discovery := addressIn(s.discoveryAddress)
	p := bootstrap.Params{
		Node:     id,
		Cluster:  s.serviceCluster,
		Locality: bootstrap.ParseLocality(s.availabilityZone),
		Metadata: metadata,
		Discovery: bootstrap.Discovery{
			Address:        discovery,
			ConnectTimeout: s.connectTimeout,
			Variant:        bootstrap.Variant(s.xdsVariant),
		},
		Zipkin:           addressIn(s.zipkinAddress),
		OpenTelemetry:    addressIn(s.openTelemetryAddress),
		MetricsService:   addressIn(s.envoyMetricsService),
		AccessLogService: addressIn(s.envoyAccessLogService),
		Stats: bootstrap.Stats{
			InclusionPrefixes: s.statsInclusionPrefixes,
			InclusionSuffixes: s.statsInclusionSuffixes,
			InclusionRegexps:  s.statsInclusionRegexps,
		},
		Runtime:        runtimeOf(s.runtimeValues),
		MemoryLimit:    uint64(s.memoryLimit),
		OutlierLogPath: s.outlierLogPath,
		PrometheusPort: s.envoyPrometheusPort,
		ReadinessPort:  s.envoyStatusPort,
		AdminPort:      s.proxyAdminPort,
		StatusPort:     s.statusPort,
	}
	if s.controlPlaneAuthPolicy == authMutualTLS {
		files := s.controlPlaneCertificates()
		p.Discovery.TLS = &bootstrap.TLS{
			Chain: files.Chain, Key: files.Key, Roots: files.Roots,
			SAN: cmp.Or(s.pilotIdentity, identity.Discovery(discovery.Host, s.trustDomain, env)),
		}
	}
	return withSecretsIn(p, s.configPath)
}

// withSecretsIn says where the socket of the agent's own SDS is.
func withSecretsIn(p bootstrap.Params, dir string) bootstrap.Params {
	p.SecretsSocket = filepath.Join(dir, "sds.sock")
	return p
}

// addressIn reads what its Kind has let pass.
func addressIn(text string) bootstrap.Address {
	a, _ := bootstrap.ParseAddress(text)
	return a
}

// runtimeOf takes numbers and truth values for such; all else is text.
func runtimeOf(values map[string]string) map[string]any {
	out := make(map[string]any, len(values))
	for name, text := range values {
		out[name] = text
		var value any
		if json.Unmarshal([]byte(text), &value) == nil {
			switch value.(type) {
			case float64, bool:
				out[name] = json.RawMessage(text) // as it was written
			}
		}
	}
	return out
}

// options become Envoy's arguments.
func (s *settings) options() envoy.Options {
	return envoy.Options{
		Concurrency:       s.concurrency,
		LogLevel:          s.envoyLogLevel(),
		ComponentLogLevel: s.proxyComponentLogLevel,
		DrainTime:         s.drainDuration,
		ParentShutdown:    s.parentShutdownDuration,
		Extra:             s.envoyArguments,
	}
}

// envoyLogLevel is the level in Envoy's own words of today.
func (s *settings) envoyLogLevel() string {
	switch s.proxyLogLevel {
	case "warn":
		return "warning"
	case "err":
		return "error"
	}
	return s.proxyLogLevel
}

// supervision is how the supervisor decides.
func (s *settings) supervision() agent.Settings {
	return agent.Settings{
		HandoverWay:      agent.Way(s.handover),
		HandoverTimeout:  s.handoverTimeout,
		ParentShutdown:   s.parentShutdownDuration,
		TerminationDrain: s.terminationDrainDuration,
		WaitOut:          !s.exitOnZeroActiveConnections,
		RestartBudget:    s.restartBudget,
		BackOffBase:      s.restartBackOff,
	}
}

// withServiceName tells Envoy whose spans it sends, as OpenTelemetry wants it told to any program. What the workload's
// own environment says goes before.
func withServiceName(environ []string, service string) []string {
	const variable, name = "OTEL_RESOURCE_ATTRIBUTES", "service.name="
	attributes := identity.ParseEnvironment(environ)[variable]
	if strings.Contains(attributes, name) {
		return environ
	}
	if attributes != "" {
		attributes += ","
	}
	return append(slices.Clone(environ), variable+"="+attributes+name+url.PathEscape(service))
}
