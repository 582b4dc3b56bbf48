package envoy

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pilotlight/pilotlight/agent/envoy/hotrestart"
)

// Options become Envoy's arguments.
type Options struct {
	Concurrency       int    // worker threads; 0 leaves it to Envoy: hardware threads, affinity, cgroup quota
	LogLevel          string // trace, debug, info, warning, error, critical or off
	ComponentLogLevel string // "upstream:debug,config:trace"; empty for none
	DrainTime         time.Duration
	ParentShutdown    time.Duration
	Gateway           bool          // its listeners have no direction INBOUND: a drain is one of all listeners
	MinimumDrain      time.Duration // how long a stopping process serves on, also with nothing in flight
	Extra             []string      // appended unchanged
}

// arguments returns the arguments of every epoch and of a validation.
func (o Options) arguments() []string {
	args := []string{
		"--drain-time-s", wholeSeconds(o.DrainTime),
		"--drain-strategy", "immediate", // a replaced epoch closes each connection with its next answer
		"--parent-shutdown-time-s", wholeSeconds(o.ParentShutdown),
		"--log-level", o.LogLevel,
		"--log-format", LogFormat,
	}
	if o.ComponentLogLevel != "" {
		args = append(args, "--component-log-level", o.ComponentLogLevel)
	}
	if o.Concurrency > 0 {
		args = append(args, "--concurrency", strconv.Itoa(o.Concurrency))
	}
	if !slices.ContainsFunc(o.Extra, func(arg string) bool { return strings.HasPrefix(arg, flushFlag) }) {
		args = append(args, flushFlag, flushInterval) // Envoy refuses a flag that is given twice
	}
	return append(args, o.Extra...)
}

// Envoy writes access logs when 64 KiB are full, and at intervals: its own default is ten seconds, in which a person who
// looks for a request does not find it.
const (
	flushFlag     = "--file-flush-interval-msec"
	flushInterval = "1000"
)

// argv returns an epoch's arguments.
func argv(o Options, f files, s hotrestart.Sockets, restart int) []string {
	args := []string{"--config-path", f.bootstrap}
	if overlay := f.overlay(); overlay != "" {
		args = append(args, "--config-yaml", overlay)
	}
	if s.BaseID == 0 {
		args = append(args, "--disable-hot-restart")
	} else {
		args = append(args,
			"--base-id", s.BaseID.String(), "--restart-epoch", strconv.Itoa(restart),
			"--socket-path", s.Prefix(), "--socket-mode", "600",
			// Without this flag a newcomer requests statistics, and waits for the reply even if its parent has died.
			"--skip-hot-restart-parent-stats")
	}
	return append(args, o.arguments()...)
}

// changedArguments names the flags of o that differ from those of a command line, with both values. The format of the log is no setting.
func (o Options) changedArguments(line []string) (changed []string) {
	want := o.arguments()
	from := slices.Index(line, want[0])
	if from < 0 {
		return nil // it is not one of ours
	}
	flags := func(args []string) map[string]string {
		out, flag := map[string]string{}, ""
		for _, arg := range args {
			if strings.HasPrefix(arg, "-") {
				flag, out[arg] = arg, ""
			} else {
				out[flag] = arg
			}
		}
		return out
	}
	now, before := flags(want), flags(line[from:])
	all := maps.Clone(now)
	maps.Copy(all, before)
	delete(all, "--log-format")
	for _, flag := range slices.Sorted(maps.Keys(all)) {
		value, set := now[flag]
		old, was := before[flag]
		switch {
		case set && was && value != old:
			changed = append(changed, flag+" "+value+", before "+old)
		case set && !was:
			changed = append(changed, strings.TrimSpace(flag+" "+value)+", before not set")
		case was && !set:
			changed = append(changed, flag+" no longer set")
		}
	}
	return changed
}

func wholeSeconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
