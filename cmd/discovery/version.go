package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/internal/version"
)

func newVersion() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version of this binary", Args: noArgs}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		info := version.Get()
		if *output == outputJSON {
			return writeJSON(cmd.OutOrStdout(), info)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), "discovery", info); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	}
	return cmd
}
