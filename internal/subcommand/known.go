package subcommand

import (
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
