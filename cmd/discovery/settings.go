package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/plane"
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
