package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/spelling"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "discovery",
		Short:         "A small control plane for Envoy that speaks Istio's configuration",
		Args:          commandNamed,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return setting.Usage("discovery", err) })
	root.AddCommand(newServe(), newValidate(), newApply(), newGet(), newDelete(), newProxyConfig(), newInject(), newCompletion(), newVersion())
	completeValues(root)
	return root
}

// commandNamed refuses the name of a command that is not there, with the one that is probably meant.
func commandNamed(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	end := ", want one of " + strings.Join(names, ", ")
	if near := spelling.Nearest(args[0], names); near != "" {
		end = ", did you mean " + near + "?"
	}
	return setting.Usage("discovery", fmt.Errorf("unknown command %q%s", args[0], end))
}

func noArgs(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return usage(err)
	}
	return nil
}

// usage makes an error one of the command line; nil stays nil.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return setting.Usage("discovery", err)
}
