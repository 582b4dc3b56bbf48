package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hashicorp/go-multierror"
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent"
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
	fork           func(func())    // runs its argument on the main thread
	stop           func()          // does what the first signal to stop does; again it does nothing
	hurry          <-chan struct{} // each signal to stop after the first
}

// run executes an invocation and returns its exit status.
func run(ctx context.Context, c command) int {
	ctx, c.stop, c.hurry = signalled(ctx)

	root := rootCommand(c)
	root.SetArgs(c.args)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	err := root.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintln(c.stderr, "agent:", err)
	}
	return exitStatus(err)
}

// signalled returns a context that stop ends, or the first SIGTERM or SIGINT, and a channel that tells of each later
// signal.
func signalled(ctx context.Context) (_ context.Context, stop func(), _ <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	signals, hurry := make(chan os.Signal, 4), make(chan struct{}, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		cancel()
		for range signals {
			hurry <- struct{}{}
		}
	}()
	return ctx, cancel, hurry
}

func exitStatus(err error) int {
	var usage usageError
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

// usageError is a fault of flags, arguments or environment.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usage lists faults one a line, each of which names its flag, variable or line. Without faults it is no error.
func usage(faults *multierror.Error) error {
	if faults.ErrorOrNil() == nil {
		return nil
	}
	faults.ErrorFormat = func(errs []error) string {
		lines := make([]string, len(errs))
		for i, err := range errs {
			lines[i] = err.Error()
		}
		return strings.Join(lines, "\nagent: ")
	}
	return usageError{faults}
}

func rootCommand(c command) *cobra.Command {
	root := &cobra.Command{
		Use:           "agent",
		Short:         "Launch Envoy beside a program, keep it alive, stop it without dropping a request",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		proxyCommand(c), bootstrapCommand(c), waitCommand(c), statusCommand(c), requestCommand(c),
		versionCommand(), completionCommand(),
	)
	for _, sub := range append(root.Commands(), root) {
		sub.Args = usageArgs(sub.Args)
	}
	return root
}

// usageArgs makes a refusal of arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

func versionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print which build this is",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch info := version.Get(); output {
			case "text":
				_, err := fmt.Fprintln(cmd.OutOrStdout(), info)
				return err
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(info)
			}
			return usageError{fmt.Errorf("--output %q: want text or json", output)}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}
