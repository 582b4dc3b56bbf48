package main

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/pilotlight/pilotlight/discovery"
	"github.com/pilotlight/pilotlight/discovery/config/file"
	"github.com/pilotlight/pilotlight/discovery/registry/mock"
)

// registries are the adapters by the names that --registries knows, which are pilot-discovery's.
func registries() map[string]func(*slog.Logger) discovery.Source {
	return map[string]func(*slog.Logger) discovery.Source{
		"Mock": func(*slog.Logger) discovery.Source { return mock.Source{Registry: mock.New(mock.HelloWorld()...)} },
	}
}

// registryFaults are what is wrong with the sources of services and configuration.
func (s *settings) registryFaults() (faults []error) {
	if s.configDir == "" && len(s.registries) == 0 {
		faults = append(faults, errors.New("--configDir is missing: want a directory or a file, or --registries"))
	}
	known := registries()
	for i, name := range s.registries {
		switch {
		case known[name] == nil:
			faults = append(faults, s.origins.Fault("registries", name, "one or more of "+strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		case slices.Contains(s.registries[:i], name):
			faults = append(faults, s.origins.Fault("registries", name, "each name once"))
		}
	}
	return faults
}

// sources are where services and configuration come from: registries, a store of objects, and files of the mesh's settings.
func (s *settings) sources(store discovery.Source, log *slog.Logger) map[string]discovery.Source {
	out := map[string]discovery.Source{}
	for _, name := range s.registries {
		out[name] = registries()[name](log)
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

// sourceLines says which sources do not stand as they should.
func sourceLines(sources []discovery.SourceStatus) (out []string) {
	for _, s := range sources {
		out = append(out, s.Lines()...)
	}
	return out
}
