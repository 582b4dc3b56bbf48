package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageInGroups prints the usage of serve: its flags are those of a table, under the headings of the table.
func usageInGroups(cmd *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
	grouped := map[string]bool{}
	table := newSettings().table()
	for i := 0; i < len(table.Settings); {
		group := table.Settings[i].Group
		set := &pflag.FlagSet{SortFlags: false}
		for ; i < len(table.Settings) && table.Settings[i].Group == group; i++ {
			if f := cmd.Flags().Lookup(table.Settings[i].Name); f != nil {
				set.AddFlag(f)
				grouped[f.Name] = true
			}
		}
		fmt.Fprintf(&b, "\n%s:\n%s", group, set.FlagUsages())
	}
	rest := &pflag.FlagSet{SortFlags: false}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !grouped[f.Name] {
			rest.AddFlag(f)
		}
	})
	fmt.Fprintf(&b, "\nThe command itself:\n%s", rest.FlagUsages())
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}
