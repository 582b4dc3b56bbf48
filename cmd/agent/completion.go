package main

import (
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"
)

const completionLong = `Print a script that lets a shell complete the agent's commands and flags.

bash, which also needs the package bash-completion:

    agent completion bash > /etc/bash_completion.d/agent

zsh, where a directory of $fpath is to hold it, and compinit is called:

    agent completion zsh > "${fpath[1]}/_agent"

fish:

    agent completion fish > ~/.config/fish/completions/agent.fish

PowerShell, in a profile:

    agent completion powershell | Out-String | Invoke-Expression`

// shells are the shells for which cobra writes scripts.
var shells = map[string]func(root *cobra.Command, out io.Writer) error{
	"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
	"zsh":        func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
	"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
	"powershell": func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) },
}

func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Print a script that completes the agent's commands and flags",
		Long:      completionLong,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: slices.Sorted(maps.Keys(shells)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return shells[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}
