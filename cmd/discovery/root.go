package main

import (
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/cmd/discovery/ask"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

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
	root.AddCommand(newServe(), newValidate(), newExplain(), newApply(), newGet(), newDelete(), ask.Release(), ask.Status(), ask.Config(), newProxyConfig(), newInject(), newToken(), newCA(), subcommand.Completion("discovery"), newVersion())
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
