package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// usageInGroups prints the usage of serve: its flags are those of a table, under the headings of the table.
func usageInGroups(cmd *cobra.Command) error {
	_, err := fmt.Fprintf(cmd.OutOrStderr(), "Usage:\n  %s\n\nExamples:\n%s\n%s", cmd.UseLine(), cmd.Example, newSettings().table().Usage(cmd.Flags()))
	return err
}
