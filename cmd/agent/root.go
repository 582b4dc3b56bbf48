package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/agent/lossy"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
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
