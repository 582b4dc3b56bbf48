package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// retired are pilot-agent's flags that have no effect any more. They are accepted, so that a pod template of 2018 still
// starts.
var retired = []struct {
	name    string
	instead string
	bare    bool // it needs no value
}{
	{"applicationPorts", "readiness follows what Envoy has received and bound, not a list of ports", false},
	{"bootstrapv2", "there is one version of Envoy's configuration", true},
	{"controlPlaneBootstrap", "metadata comes from ISTIO_META_*", true},
	{"customConfig", "use --customConfigFile", false},
	{"datadogAgentAddress", "use --openTelemetryAddress", false},
	{"disableInternalTelemetry", "there is no internal telemetry", true},
	{"discoveryRefreshDelay", "discovery pushes, nothing is polled", false},
	{"dnsRefreshRate", "the bootstrap resolves discovery's name every five seconds", false},
	{"keepaliveInterval", "the bootstrap keeps the connection to discovery alive", false},
	{"keepaliveMaxServerConnectionAge", "it is a setting of discovery", false},
	{"keepaliveTimeout", "the bootstrap keeps the connection to discovery alive", false},
	{"lightstepAccessToken", "use --openTelemetryAddress", false},
	{"lightstepAddress", "use --openTelemetryAddress", false},
	{"lightstepCacertPath", "use --openTelemetryAddress", false},
	{"lightstepSecure", "use --openTelemetryAddress", true},
	{"log_as_json", "use --logFormat json", true},
	{"log_backtrace_at", "use --logLevel", false},
	{"log_caller", "use --logLevel", false},
	{"log_output_level", "use --logLevel", false},
	{"log_rotate", "logs go to standard error: rotate them there", false},
	{"log_rotate_max_age", "logs go to standard error: rotate them there", false},
	{"log_rotate_max_backups", "logs go to standard error: rotate them there", false},
	{"log_rotate_max_size", "logs go to standard error: rotate them there", false},
	{"log_stacktrace_level", "use --logLevel", false},
	{"log_target", "logs go to standard error", false},
	{"meshConfig", "it is discovery's", false},
	{"mixerIdentity", "there is no mixer", false},
	{"sds-enabled", "the agent always serves certificates by SDS: from --certDir, or from --caAddress", true},
	{"stackdriverTracingDebug", "use --openTelemetryAddress", true},
	{"stackdriverTracingEnabled", "use --openTelemetryAddress", true},
	{"stackdriverTracingMaxNumberOfAnnotations", "use --openTelemetryAddress", false},
	{"stackdriverTracingMaxNumberOfAttributes", "use --openTelemetryAddress", false},
	{"stackdriverTracingMaxNumberOfMessageEvents", "use --openTelemetryAddress", false},
	{"statsdAddress", "use --statsdUdpAddress", false},
	{"stsPort", "there is no token service", false},
	{"tokenManagerPlugin", "there is no token service", false},
	{"vklog", "use --logLevel", false},
}

// warnRetired logs each retired flag once.
func warnRetired(log *slog.Logger, used []setting.Given) {
	warned := map[string]bool{}
	for _, g := range used {
		for _, r := range retired {
			if r.name == g.Name && !warned[g.Name] {
				warned[g.Name] = true
				log.Warn("a flag means nothing any more", "flag", "--"+r.name, "instead", r.instead)
			}
		}
	}
}

// flags are the flags of the settings, and the retired ones.
type flags struct {
	setting.Flags
	retired setting.Flags
}

func (f *flags) register(set *pflag.FlagSet, table setting.Table) {
	f.Register(set, table)
	for _, r := range retired {
		f.retired.RegisterHidden(set, r.name, r.instead, r.bare)
	}
}
