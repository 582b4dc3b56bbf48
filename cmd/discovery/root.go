package main

import (
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/internal/setting"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "discovery",
		Short:         "A small control plane for Envoy that speaks Istio's configuration",
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return setting.Usage("discovery", err) })
	root.AddCommand(newServe(), newValidate(), newApply(), newGet(), newDelete(), newProxyConfig(), newInject(), newVersion())
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return setting.Usage("discovery", err)
	}
	return nil
}
