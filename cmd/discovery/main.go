package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/cmd/discovery/remote"
	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/logger"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
	"github.com/pilotlight/pilotlight/internal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command and returns the process's exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	setting.Report(stderr, command.CommandPath(), err)
	if errors.As(err, &setting.UsageError{}) {
		return 2
	}
	return 1
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "discovery",
		Short:         "A small control plane for Envoy that speaks Istio's configuration",
		Args:          subcommand.Known,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return setting.Usage("discovery", err) })
	root.AddCommand(newServe(), newValidate(), newExplain(), newApply(), newGet(), newDelete(), remote.Release(), remote.Status(), remote.Config(), newProxyConfig(), newInject(), newToken(), newCA(), subcommand.Completion("discovery"), newVersion())
	completeValues(root)
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	return subcommand.Usage(cobra.NoArgs)(cmd, args)
}

// usage makes an error one of the command line; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return setting.Usage("discovery", err)
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version of this binary", Args: noArgs}
	output := subcommand.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return output.Print(cmd.OutOrStdout(), version.Get(), fmt.Sprintln("discovery", version.Get()))
	}
	return cmd
}

// usageInGroups prints the usage of serve: its flags are those of a table, under the headings of the table.
func usageInGroups(cmd *cobra.Command) error {
	_, err := fmt.Fprintf(cmd.OutOrStderr(), "Usage:\n  %s\n\nExamples:\n%s\n%s", cmd.UseLine(), cmd.Example, newSettings().table().Usage(cmd.Flags()))
	return err
}

// completeValues completes the values of flags that have few, in all commands, and the kinds of get and delete.
func completeValues(root *cobra.Command) {
	for flag, values := range map[string][]string{
		"registries": plane.Registries(), "logLevel": logger.Levels, "logFormat": logger.Formats, "output": {string(subcommand.Text), string(subcommand.JSON)},
	} {
		for _, cmd := range root.Commands() {
			if f := cmd.Flags().Lookup(flag); f != nil {
				if cmd.Name() == "get" {
					values = []string{"table", "name", "yaml", "json"}
				}
				_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails for a second one only
			}
		}
	}
	var kinds []string
	for _, r := range config.Resources() {
		kinds = append(kinds, r.Plural)
	}
	for _, cmd := range root.Commands() {
		if cmd.Name() == "get" || cmd.Name() == "delete" {
			cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveNoFileComp
				}
				return kinds, cobra.ShellCompDirectiveNoFileComp
			}
		}
	}
}
