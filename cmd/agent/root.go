package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
	"github.com/pilotlight/pilotlight/internal/version"
)

// flushLimit bounds the time to write the last lines.
const flushLimit = 500 * time.Millisecond

// execute runs an invocation and returns its exit status.
func execute(ctx context.Context, c command) int {
	ctx, c.stop, c.hurry, c.quit, c.settled = signalled(ctx)
	c.said = lossy.NewWriter(c.stderr)
	defer c.said.Flush(flushLimit)

	c.runs = new(bool)
	if c.handed != "" { // at once: until then a signal ends the agent
		c.hangUp, c.upgrade = hangUps(), upgradeSignals()
	}
	root := rootCommand(c)
	root.SetArgs(c.args)
	root.SetOut(c.stdout)
	root.SetErr(c.said)
	ran, err := root.ExecuteContextC(ctx)
	if err != nil && c.handed != "" && !*c.runs {
		err = c.unable(err)
	}
	if err != nil && err.Error() != "" {
		setting.Report(c.said, ran.CommandPath(), err)
	}
	return exitStatus(err)
}

func rootCommand(c command) *cobra.Command {
	showVersion := false
	root := &cobra.Command{
		Use:           "agent",
		Short:         "Launch Envoy beside a program, keep it alive, stop it without dropping a request",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          subcommand.Known,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				return printVersion(cmd)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&showVersion, "version", false, "print which build this is")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return setting.Usage("agent", err) })
	root.AddCommand(subcommands(c)...)
	for _, sub := range append(root.Commands(), root) {
		sub.Args = subcommand.Usage(sub.Args)
	}
	return root
}

// subcommands returns all commands, or only the one with which the arguments begin: proxy and bootstrap have a flag for
// each setting, and the flags of the other command would delay a start of Envoy.
func subcommands(c command) (out []*cobra.Command) {
	subs := []struct {
		name  string
		build func(command) *cobra.Command
	}{
		{"proxy", proxyCommand},
		{"bootstrap", bootstrapCommand},
		{"wait", waitCommand},
		{"status", statusCommand},
		{"why", whyCommand},
		{"request", requestCommand},
		{"drain", drainCommand},
		{"upgrade", upgradeCommand},
		{"join", func(command) *cobra.Command { return joinCommand() }},
		{"version", func(command) *cobra.Command { return versionCommand() }},
		{"completion", func(command) *cobra.Command { return subcommand.Completion("agent") }},
	}
	for i, sub := range subs {
		if len(c.args) > 0 && c.args[0] == sub.name {
			subs = subs[i : i+1]
			break
		}
	}
	for _, sub := range subs {
		out = append(out, sub.build(c))
	}
	return out
}

// command is one invocation, with everything that it uses of its process.
type command struct {
	args            []string
	environ         []string
	stdout, stderr  io.Writer
	said            *lossy.Writer           // to stderr, for the agent's own log
	fork            func(func())            // runs its argument on the main thread
	stop            func()                  // acts like the first signal to stop; a second call does nothing
	hurry           <-chan struct{}         // each signal to stop after the first
	quit            <-chan struct{}         // each SIGQUIT
	settled         func() []syscall.Signal // waits until each signal that has come is dealt with, and returns those that a next image needs too
	hangUp, upgrade <-chan os.Signal        // each SIGHUP, each SIGUSR2; set by proxy
	runs            *bool                   // the proxy is run: what was handed over is received
	handed          string                  // by another image of the agent: see upgrade.Variable; empty for a start
}

func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Get())
	return err
}

func versionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "text":
				return printVersion(cmd)
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(version.Get())
			}
			return setting.Usage("agent", fmt.Errorf("--output %q: want text or json", output))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// Exit statuses. 0 means success.
const (
	exitConfiguration = 1 // the configuration, or something that it refers to, cannot be used
	exitUsage         = 2 // flags, arguments or environment are wrong
	exitGaveUp        = 3 // Envoy could not be kept alive
)

func exitStatus(err error) int {
	var usage setting.UsageError
	var gaveUp *agent.GaveUp
	var ended *exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return ended.status
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &gaveUp) && !gaveUp.Refused:
		return exitGaveUp
	}
	return exitConfiguration
}

// exit is an error with its own exit status.
type exit struct {
	status int
	error  // nil if the status is enough
}

func (e *exit) Unwrap() error { return e.error }

func (e *exit) Error() string {
	if e.error == nil {
		return ""
	}
	return e.error.Error()
}

// usage joins faults to one error. Each fault names its flag, variable or line. Without faults it returns nil.
func usage(faults *multierror.Error) error { return setting.Usage("agent", faults.WrappedErrors()...) }

// usageOf makes a usage error of the faults in a proxy's configuration. It returns any other error unchanged.
func usageOf(err error) error {
	var faults *multierror.Error
	if errors.As(err, &faults) {
		return usage(faults)
	}
	return err
}
