package main

import (
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/logger"
)

const completionLong = `Print a script that lets a shell complete discovery's commands, flags and their values.

bash, which also needs the package bash-completion:

    discovery completion bash > /etc/bash_completion.d/discovery

zsh, where a directory of $fpath is to hold it, and compinit is called:

    discovery completion zsh > "${fpath[1]}/_discovery"

fish:

    discovery completion fish > ~/.config/fish/completions/discovery.fish

PowerShell, in a profile:

    discovery completion powershell | Out-String | Invoke-Expression`

// shells returns the shells for which cobra writes scripts.
func shells() map[string]func(root *cobra.Command, out io.Writer) error {
	return map[string]func(root *cobra.Command, out io.Writer) error{
		"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
		"zsh":        func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
		"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
		"powershell": func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) },
	}
}

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes discovery's commands, flags and their values",
		Long:  completionLong,
		Args: func(cmd *cobra.Command, args []string) error {
			return usage(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)(cmd, args))
		},
		ValidArgs: slices.Sorted(maps.Keys(shells())),
		RunE: func(cmd *cobra.Command, args []string) error {
			return shells()[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}

// completeValues completes the values of flags that have few, in all commands, and the kinds of get and delete.
func completeValues(root *cobra.Command) {
	for flag, values := range map[string][]string{
		"registries": plane.Registries(), "logLevel": logger.Levels, "logFormat": logger.Formats, "output": {string(outputText), string(outputJSON)},
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
