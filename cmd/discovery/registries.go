package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/registry/consul"
	"github.com/pilotlight/pilotlight/discovery/registry/eureka"
	"github.com/pilotlight/pilotlight/discovery/registry/mock"
	"github.com/pilotlight/pilotlight/discovery/secret"
	secretfile "github.com/pilotlight/pilotlight/discovery/secret/file"
)

// registry is a registry that --registries can name.
type registry struct {
	source func(*slog.Logger) discovery.Source

	// needs is the setting that the registry requires, "" for none.
	needs string
	given bool
}

// known returns the registries by their names, which are pilot-discovery's.
func (s *settings) known() map[string]registry {
	return map[string]registry{
		"CloudFoundry": {
			source: func(*slog.Logger) discovery.Source { return s.cloudFoundry.source() },
			needs:  "natsURL", given: len(s.cloudFoundry.broker.URLs) > 0,
		},
		"Consul": {
			source: func(log *slog.Logger) discovery.Source {
				return &consul.Source{Config: s.consul, Log: log.With("source", "Consul")}
			},
			needs: "consulserverURL", given: s.consul.URL != "",
		},
		"Eureka": {
			source: func(log *slog.Logger) discovery.Source { return eureka.New(s.eureka, log.With("source", "Eureka")) },
			needs:  "eurekaserverURL", given: len(s.eureka.URLs) > 0,
		},
		kubernetesRegistry: {source: func(*slog.Logger) discovery.Source { return s.cluster.services(s.domain) }},
		"Mock": {source: func(*slog.Logger) discovery.Source {
			return mock.Source{Registry: mock.New(mock.HelloWorld()...), Domain: s.domain}
		}},
	}
}

// registryFaults returns the faults of the settings for sources of services and configuration.
func (s *settings) registryFaults() (faults []error) {
	if s.configDir == "" && len(s.registries) == 0 && s.meshConfig == "" && !s.cluster.config {
		faults = append(faults, errors.New("--configDir is missing: want a directory or a file, or --registries, --kubernetesConfig, or --meshConfig with configSources"))
	}
	faults = slices.Concat(faults, s.clusterFaults(), s.ingressFaults(), s.gatewayFaults(), s.cluster.leaderFaults())
	known := s.known()
	for i, name := range s.registries {
		one, is := known[name]
		switch {
		case !is:
			faults = append(faults, s.origins.Fault("registries", name, "one or more of "+strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		case slices.Contains(s.registries[:i], name):
			faults = append(faults, s.origins.Fault("registries", name, "each name once"))
		case one.needs != "" && !one.given:
			faults = append(faults, fmt.Errorf("--%s is missing: --registries %s needs it", one.needs, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if one := known[name]; one.given && !slices.Contains(s.registries, name) {
			faults = append(faults, fmt.Errorf("--%s is given, and --registries does not name %s", one.needs, name))
		}
	}
	return faults
}

// sources returns the sources of services and configuration: registries, a store of objects, and files of the mesh's
// settings.
func (s *settings) sources(store discovery.Source, log *slog.Logger) map[string]discovery.Source {
	out := s.cluster.stores(log)
	for _, name := range s.registries {
		out[name] = s.known()[name].source(log)
	}
	if s.configDir != "" {
		out["config"] = store
	}
	if s.meshConfig != "" {
		out["meshConfig"] = file.NewSettings("MeshConfig", s.meshConfig, log)
	}
	if s.networksConfig != "" {
		out["networksConfig"] = file.NewSettings("MeshNetworks", s.networksConfig, log)
	}
	return out
}

// collectors returns the sources that have metrics of their own.
func collectors(sources map[string]discovery.Source) (out []prometheus.Collector) {
	for _, s := range sources {
		if c, counts := s.(prometheus.Collector); counts {
			out = append(out, c)
		}
	}
	return out
}

// secretSources returns the sources of secrets.
func (s *settings) secretSources(log *slog.Logger) map[string]secret.Source {
	out := map[string]secret.Source{}
	if s.secretsDir != "" {
		out["secretsDir"] = secretfile.New(s.secretsDir, log)
	}
	return out
}

// sourceLines returns a line for each source with a fault.
func sourceLines(sources []discovery.SourceStatus) (out []string) {
	for _, s := range sources {
		out = append(out, s.Lines()...)
	}
	return out
}
