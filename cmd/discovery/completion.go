package main

import (
	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	"github.com/pilotlight/pilotlight/discovery/plane"
	"github.com/pilotlight/pilotlight/internal/logger"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

// completeValues completes the values of flags that have few, in all commands, and the kinds of get and delete.
func completeValues(root *cobra.Command) {
	for flag, values := range map[string][]string{
		"registries": plane.Registries(), "logLevel": logger.Levels, "logFormat": logger.Formats, "output": {string(subcommand.Text), string(subcommand.JSON)},
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
