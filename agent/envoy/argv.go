package envoy

import (
	"strconv"
	"time"
)

// Options become Envoy's arguments.
type Options struct {
	Concurrency       int    // worker threads; 0 leaves it to Envoy: hardware threads, affinity, cgroup quota
	LogLevel          string // trace, debug, info, warning, error, critical or off
	ComponentLogLevel string // "upstream:debug,config:trace"; empty for none
	DrainTime         time.Duration
	ParentShutdown    time.Duration
	Extra             []string // passed on as they are, last
}

// argv returns Envoy's arguments. Hot restart is off until there is a handover that needs it: it would claim a
// base-id and shared memory of the whole host.
func argv(bootstrap string, o Options) []string {
	args := []string{
		"--config-path", bootstrap,
		"--disable-hot-restart",
		"--drain-time-s", wholeSeconds(o.DrainTime),
		"--parent-shutdown-time-s", wholeSeconds(o.ParentShutdown),
		"--log-level", o.LogLevel,
	}
	if o.ComponentLogLevel != "" {
		args = append(args, "--component-log-level", o.ComponentLogLevel)
	}
	if o.Concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(o.Concurrency))
	}
	return append(args, o.Extra...)
}

func wholeSeconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
