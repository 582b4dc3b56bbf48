package subcommand

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/internal/setting"
)

// Known refuses an argument of a program that is no command of it, with the one that is probably meant.
func Known(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range root.Commands() {
		names = append(names, sub.Name())
	}
	return setting.Usage(root.Name(), setting.UnknownCommand(root.Name(), args[0], names))
}

// Usage makes the errors of check errors of the command line.
func Usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return setting.Usage(cmd.Root().Name(), err)
		}
		return nil
	}
}

// Count refuses fewer arguments than least and more than most, and says what is wanted.
func Count(least, most int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return setting.Usage(cmd.Root().Name(), fmt.Errorf("%d arguments, want %s", len(args), want))
		}
		return nil
	}
}

// Output is the format in which a command prints its result.
type Output string

// The formats.
const (
	Text Output = "text"
	JSON Output = "json"
)

// String implements pflag.Value.
func (o *Output) String() string { return string(*o) }

// Type implements pflag.Value.
func (o *Output) Type() string { return "text|json" }

// Set implements pflag.Value.
func (o *Output) Set(s string) error {
	if s != string(Text) && s != string(JSON) {
		return fmt.Errorf("is %q, want text or json", s)
	}
	*o = Output(s)
	return nil
}

// AddOutput adds the flag -o to a command.
func AddOutput(cmd *cobra.Command) *Output {
	o := Text
	cmd.Flags().VarP(&o, "output", "o", "form of the output")
	return &o
}

// Print writes a value in the form of the flag; text is its text.
func (o *Output) Print(w io.Writer, value any, text string) error {
	if *o == Text {
		if _, err := io.WriteString(w, text); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

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
