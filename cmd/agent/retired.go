package main

import (
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/internal/setting"
)

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
