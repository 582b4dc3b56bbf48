package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent"
	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/version"
)

// Exit statuses. 0 means: did what it was asked.
const (
	exitConfiguration = 1 // the configuration, or what it names, cannot be used
	exitUsage         = 2 // flags, arguments or environment are wrong
	exitGaveUp        = 3 // Envoy could not be kept alive
)

// command is one invocation: everything that it takes from the process it runs in.
type command struct {
	args           []string
	environ        []string
	stdout, stderr io.Writer
	said           *lossy.Writer   // to stderr, for all that the agent itself says
	fork           func(func())    // runs its argument on the main thread
	stop           func()          // does what the first signal to stop does; again it does nothing
	hurry          <-chan struct{} // each signal to stop after the first
}

// flushLimit is how long the last lines may take to be written.
const flushLimit = 500 * time.Millisecond

// run executes an invocation and returns its exit status.
func run(ctx context.Context, c command) int {
	ctx, c.stop, c.hurry = signalled(ctx)
	c.said = lossy.NewWriter(c.stderr)
	defer c.said.Flush(flushLimit)

	root := rootCommand(c)
	root.SetArgs(c.args)
	root.SetOut(c.stdout)
	root.SetErr(c.said)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(c.said, "agent:", err)
	}
	return exitStatus(err)
}

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

// exit is an end with a status of its own.
type exit struct {
	status int
	error  // nil where the status says all
}

func (e *exit) Unwrap() error { return e.error }

func (e *exit) Error() string {
	if e.error == nil {
		return ""
	}
	return e.error.Error()
}

// usage makes one error of faults, each of which names its flag, variable or line. Without faults it is no error.
func usage(faults *multierror.Error) error { return setting.Usage("agent", faults.WrappedErrors()...) }

func rootCommand(c command) *cobra.Command {
	showVersion := false
	root := &cobra.Command{
		Use:           "agent",
		Short:         "Launch Envoy beside a program, keep it alive, stop it without dropping a request",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
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
		sub.Args = usageArgs(sub.Args)
	}
	return root
}

// subcommands are all commands, or only the one that the arguments begin with: proxy and bootstrap have a flag for each
// setting, and a start of Envoy does not wait until the flags of the other one are made.
func subcommands(c command) (out []*cobra.Command) {
	subs := []struct {
		name  string
		build func(command) *cobra.Command
	}{
		{"proxy", proxyCommand},
		{"bootstrap", bootstrapCommand},
		{"wait", waitCommand},
		{"status", statusCommand},
		{"request", requestCommand},
		{"version", func(command) *cobra.Command { return versionCommand() }},
		{"completion", func(command) *cobra.Command { return completionCommand() }},
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

// usageArgs makes a refusal of arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return setting.Usage("agent", err)
		}
		return nil
	}
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
