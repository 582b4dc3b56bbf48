package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent/proxy"
	"github.com/pilotlight/pilotlight/internal/environ"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/node"
)

// given holds the command line of a command that uses all of a proxy's settings, as text.
type given struct {
	command
	flags flags
	args  []string // before --
	extra []string // after --, for Envoy
	file  string
}

// register adds the flags of every setting to a command.
func (g *given) register(cmd *cobra.Command) {
	table := (&settings{}).table()
	g.flags.register(cmd.Flags(), table)
	cmd.Flags().StringVar(&g.file, "config", "", "YAML file of settings, by the names of the flags")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return table.Explain(err) })
}

// arguments separates the command's own arguments from Envoy's.
func (g *given) arguments(cmd *cobra.Command, args []string) {
	g.args = args
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		g.args, g.extra = args[:dash], args[dash:]
	}
}

// config resolves the settings, and returns the configuration of the proxy. It reports all faults together.
func (g *given) config() (*settings, proxy.Config, error) {
	role, err := roleOf(g.args)
	faults := multierror.Append(nil, err)
	sources := setting.Sources{Flags: g.flags.Given, Env: environ.Parse(g.environ), FileAt: g.file}
	if sources.FileAt == "" {
		sources.FileAt = sources.Env["PILOTLIGHT_CONFIG"]
	}
	if sources.FileAt != "" {
		sources.File, err = os.ReadFile(sources.FileAt)
		faults = multierror.Append(faults, err)
	}
	s := &settings{}
	if faults = multierror.Append(faults, s.resolve(sources)...); faults.ErrorOrNil() != nil {
		return nil, proxy.Config{}, usage(faults)
	}
	s.envoyArguments = append(s.envoyArguments, g.extra...)
	log := newLogger(g.said, s.logLevel, s.logFormat)
	warnRetired(log, g.flags.retired.Given)
	return s, s.config(role, g.environ, log), nil
}

// roleOf parses the only argument. Without it the proxy is a sidecar.
func roleOf(args []string) (node.Role, error) {
	switch len(args) {
	case 0:
		return node.Sidecar, nil
	case 1:
		return node.ParseRole(args[0])
	}
	return "", fmt.Errorf("arguments %q: want one role, and Envoy's own arguments after --", args)
}
