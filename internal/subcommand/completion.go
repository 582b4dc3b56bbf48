package subcommand

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

const completionLong = `Print a script that lets a shell complete PROGRAM's commands, flags and their values.

bash, which also needs the package bash-completion:

    PROGRAM completion bash > /etc/bash_completion.d/PROGRAM

zsh, where a directory of $fpath is to hold it, and compinit is called:

    PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"

fish:

    PROGRAM completion fish > ~/.config/fish/completions/PROGRAM.fish

PowerShell, in a profile:

    PROGRAM completion powershell | Out-String | Invoke-Expression`

// shells returns the shells for which cobra writes scripts.
func shells() map[string]func(root *cobra.Command, out io.Writer) error {
	return map[string]func(root *cobra.Command, out io.Writer) error{
		"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
		"zsh":        func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
		"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
		"powershell": func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) },
	}
}

// Completion is the command that prints a program's script for a shell.
func Completion(program string) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Print a script that completes the commands of " + program + ", their flags and values",
		Long:      strings.ReplaceAll(completionLong, "PROGRAM", program),
		Args:      Usage(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)),
		ValidArgs: slices.Sorted(maps.Keys(shells())),
		RunE: func(cmd *cobra.Command, args []string) error {
			return shells()[args[0]](cmd.Root(), cmd.OutOrStdout())
		},
	}
}
