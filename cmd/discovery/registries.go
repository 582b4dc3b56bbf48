package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/plane"
)

// need is the setting that a registry requires.
type need struct {
	setting string
	given   bool
}

// needs returns what the registries require, by name. The others require nothing.
func (s *settings) needs() map[string]need {
	return map[string]need{
		"CloudFoundry": {"natsURL", len(s.cloudFoundry.broker.URLs) > 0},
		"Consul":       {"consulserverURL", s.consul.URL != ""},
		"Eureka":       {"eurekaserverURL", len(s.eureka.URLs) > 0},
	}
}

// registryFaults returns the faults of the settings for sources of services and configuration.
func (s *settings) registryFaults() (faults []error) {
	if s.configDir == "" && len(s.registries) == 0 && s.meshConfig == "" && !s.cluster.config {
		faults = append(faults, errors.New("--configDir is missing: want a directory or a file, or --registries, --kubernetesConfig, or --meshConfig with configSources"))
	}
	faults = slices.Concat(faults, s.clusterFaults(), s.ingressFaults(), s.gatewayFaults(), s.cluster.leaderFaults())
	known, needs := plane.Registries(), s.needs()
	for i, name := range s.registries {
		n := needs[name]
		switch {
		case !slices.Contains(known, name):
			faults = append(faults, s.origins.Fault("registries", name, "one or more of "+strings.Join(known, ", ")))
		case slices.Contains(s.registries[:i], name):
			faults = append(faults, s.origins.Fault("registries", name, "each name once"))
		case n.setting != "" && !n.given:
			faults = append(faults, fmt.Errorf("--%s is missing: --registries %s needs it", n.setting, name))
		}
	}
	for _, name := range s.optional {
		if name == plane.Kubernetes || !slices.Contains(s.registries, name) && !strings.Contains(name, "://") {
			faults = append(faults, s.origins.Fault("optionalSources", name, "names of --registries but Kubernetes, or addresses of configSources, such as xds://host:port"))
		}
	}
	for _, name := range known {
		if n := needs[name]; n.given && !slices.Contains(s.registries, name) {
			faults = append(faults, fmt.Errorf("--%s is given, and --registries does not name %s", n.setting, name))
		}
	}
	return faults
}
