package subcommand

import (
	"fmt"

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
