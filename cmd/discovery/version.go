package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/internal/subcommand"
	"github.com/pilotlight/pilotlight/internal/version"
)

func newVersion() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version of this binary", Args: noArgs}
	output := subcommand.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return output.Print(cmd.OutOrStdout(), version.Get(), fmt.Sprintln("discovery", version.Get()))
	}
	return cmd
}
