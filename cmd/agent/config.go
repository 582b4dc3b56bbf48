package main

import (
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/cert"
	"github.com/pilotlight/pilotlight/agent/envoy"
	"github.com/pilotlight/pilotlight/agent/identity"
	"github.com/pilotlight/pilotlight/agent/proxy"
	"github.com/pilotlight/pilotlight/agent/status"
	"github.com/pilotlight/pilotlight/bootstrap"
	"github.com/pilotlight/pilotlight/internal/version"
	"github.com/pilotlight/pilotlight/node"
)

// config returns the configuration of a proxy of a role.
func (s *settings) config(role node.Role, environ []string, log *slog.Logger) proxy.Config {
	return proxy.Config{
		Version:     version.Get().Version,
		Environ:     environ,
		Identity:    identity.Given{Role: role, Registry: s.serviceRegistry, IP: s.ip, Name: s.id, Domain: s.domain},
		TrustDomain: s.trustDomain,
		Labels:      s.input("labelsFile", s.labelsFile),
		Annotations: s.input("annotationsFile", s.annotationsFile),
		Dir:         s.input("configPath", s.configPath),
		Binary:      s.input("binaryPath", s.binaryPath),
		Source: proxy.Source{
			Custom:   s.input("customConfigFile", s.customConfigFile),
			Template: s.input("templateFile", s.templateFile),
			Override: s.input("bootstrapOverride", s.bootstrapOverride),
		},
		LastGood:        s.lastGood.config(),
		UpgradeOnChange: s.upgradeOnChange,
		Params:          s.params(),
		Envoy:           s.options(role),
		Supervision:     s.supervision(),
		Certificates:    s.certificates(role),
		Enrollment:      s.enrollment(),
		NewEpochs:       s.certRotation == rotateRestart,
		Ports: status.Ports{
			Status: s.port("statusPort", s.statusPort),
			Admin:  s.port("proxyAdminPort", s.proxyAdminPort),
		},
		Log: log,
	}
}

func (s *settings) input(name, path string) proxy.Input {
	return proxy.Input{Name: s.origins[name].Name, Path: path, Given: s.origins[name].Set()}
}

func (s *settings) port(name string, number int) status.OwnPort {
	return status.OwnPort{Name: "--" + name, Number: number, Given: s.origins[name].Set()}
}

// params returns the parameters of the bootstrap.
func (s *settings) params() bootstrap.Params {
	p := bootstrap.Params{
		Cluster:  s.serviceCluster,
		Locality: bootstrap.ParseLocality(s.availabilityZone),
		Discovery: bootstrap.Discovery{
			Address:        addressIn(s.discoveryAddress),
			ConnectTimeout: s.connectTimeout,
			Variant:        bootstrap.Variant(s.xdsVariant),
		},
		Zipkin:           addressIn(s.zipkinAddress),
		OpenTelemetry:    addressIn(s.openTelemetryAddress),
		Statsd:           addressIn(s.statsdUDPAddress),
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
		p.Discovery.TLS = &bootstrap.TLS{Chain: files.Chain, Key: files.Key, Roots: files.Roots, SAN: s.pilotIdentity}
	}
	return p
}

// addressIn parses an address that its Kind has checked.
func addressIn(text string) bootstrap.Address {
	a, _ := bootstrap.ParseAddress(text)
	return a
}

// runtimeOf converts numbers and booleans; all other values are text.
func runtimeOf(values map[string]string) map[string]any {
	out := make(map[string]any, len(values))
	for name, text := range values {
		out[name] = text
		var value any
		if json.Unmarshal([]byte(text), &value) == nil {
			switch value.(type) {
			case float64, bool:
				out[name] = json.RawMessage(text) // unchanged
			}
		}
	}
	return out
}

// options returns the options for a role's Envoy.
func (s *settings) options(role node.Role) envoy.Options {
	return envoy.Options{
		Concurrency:       s.concurrency,
		LogLevel:          envoyLogLevel(s.proxyLogLevel),
		ComponentLogLevel: s.proxyComponentLogLevel,
		DrainTime:         s.drainDuration,
		ParentShutdown:    s.parentShutdownDuration,
		Gateway:           role != node.Sidecar,
		MinimumDrain:      s.minimumDrainDuration,
		Extra:             s.envoyArguments,
	}
}

// envoyLogLevel converts a level to Envoy's current name for it.
func envoyLogLevel(level string) string {
	switch level {
	case "warn":
		return "warning"
	case "err":
		return "error"
	}
	return level
}

// supervision returns the settings of the supervisor.
func (s *settings) supervision() agent.Settings {
	return agent.Settings{
		HandoverWay:      agent.Way(s.handover),
		HandoverTimeout:  s.handoverTimeout,
		ParentShutdown:   s.parentShutdownDuration,
		TerminationDrain: max(s.terminationDrainDuration, s.minimumDrainDuration),
		WaitOut:          !s.exitOnZeroActiveConnections,
		RestartBudget:    s.restartBudget,
		BackOffBase:      s.restartBackOff,
	}
}

// certificates returns the sets of a role: the workload's identity, by pilot-agent's names, and at an ingress the
// certificates for its clients.
func (s *settings) certificates(role node.Role) cert.Sets {
	needed := s.origins["certDir"].Set() || s.controlPlaneAuthPolicy == authMutualTLS
	sets := cert.Sets{{
		Files: s.controlPlaneCertificates(), Optional: !needed, NoRoots: s.controlPlaneAuthPolicy != authMutualTLS,
	}}
	if role == node.Ingress {
		in := func(name string) string { return filepath.Join(s.ingressCertDir, name) }
		files := cert.Files{Chain: in("tls.crt"), Key: in("tls.key")}
		sets = append(sets, &cert.Set{Files: files, Optional: !s.origins["ingressCertDir"].Set()})
	}
	return sets
}

func (s *settings) controlPlaneCertificates() cert.Files {
	in := func(name string) string { return filepath.Join(s.certDir, name) }
	return cert.Files{Chain: in("cert-chain.pem"), Key: in("key.pem"), Roots: in("root-cert.pem")}
}

// certificatesDir is where the agent keeps a certificate of --caAddress, below configPath.
const certificatesDir = "certificates"

// Ports of discovery, as Istio has them.
const (
	plainPort  = "15010"
	securePort = "15012"
)

// enrol sets what --caAddress says of settings that were not given.
func (s *settings) enrol() {
	if s.caAddress == "" && s.caRoots != "" && s.origins["discoveryAddress"].Set() {
		s.caAddress, s.origins["caAddress"] = besideDiscovery(s.discoveryAddress), s.origins["discoveryAddress"]
	}
	if s.caAddress == "" {
		return
	}
	auth := authMutualTLS
	if s.discoveryAddress != s.caAddress && s.origins["caAddress"] == s.origins["discoveryAddress"] {
		auth = authNone // that of the plain port, as it was given
	}
	for _, of := range []struct {
		name  string
		to    *string
		value string
	}{
		{"discoveryAddress", &s.discoveryAddress, s.caAddress},
		{"controlPlaneAuthPolicy", &s.controlPlaneAuthPolicy, auth},
		{"certDir", &s.certDir, filepath.Join(s.configPath, certificatesDir)},
	} {
		if !s.origins[of.name].Set() {
			*of.to, s.origins[of.name] = of.value, s.origins["caAddress"]
		}
	}
}

// besideDiscovery returns the address of the authority that is discovery: its own, or its secure port where that is the plain one.
func besideDiscovery(discovery string) string {
	host, port, err := net.SplitHostPort(discovery)
	if err != nil {
		return ""
	}
	if port == plainPort {
		port = securePort
	}
	return net.JoinHostPort(host, port)
}

// enrollment returns where the workload's certificate comes from; nil if others bring its files.
func (s *settings) enrollment() *proxy.Enrollment {
	host, port, err := net.SplitHostPort(s.caAddress)
	if err != nil {
		return nil // empty: its Kind has checked it
	}
	return &proxy.Enrollment{Host: host, Port: port, Roots: s.caRoots, Token: s.caToken, Dir: s.certDir, DirGiven: s.origins["certDir"] != s.origins["caAddress"]}
}
