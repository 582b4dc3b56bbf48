package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/discovery/printer"
	"github.com/pilotlight/pilotlight/internal/setting"
	"github.com/pilotlight/pilotlight/internal/subcommand"
)

func newGet() *cobra.Command {
	var p storeFlags
	cmd := &cobra.Command{
		Use:   "get KIND [NAME]",
		Short: "Print the objects of a kind that an API server or a directory has",
		Long: "Print the Istio objects of a kind: VirtualService, its plural or its short name vs. NAMESPACE in the output is where an object is, and REVISION\n" +
			"changes with it. Exits 1 if an object that is named is not there.",
		Example: "  discovery get virtualservices -A\n  discovery get vs reviews -o yaml --configDir /etc/mesh",
		Args:    subcommand.Count(1, 2, "KIND, or KIND and NAME"),
	}
	all := cmd.Flags().BoolP("all-namespaces", "A", false, "objects of all namespaces")
	output := cmd.Flags().StringP("output", "o", "table", "form of the output: table, name, yaml or json")
	p.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		show, err := printer.Form(*output, configs.ConditionType)
		if err != nil {
			return setting.Usage("discovery", fmt.Errorf("--output %s: %w", *output, err))
		}
		kind, err := kindNamed(args[0])
		if err != nil {
			return err
		}
		name := append(args, "")[1]
		if *all && name != "" {
			return setting.Usage("discovery", errors.New("NAME is given with --all-namespaces, want one of them"))
		}
		if err := p.check(); err != nil {
			return err
		}
		namespace := p.namespace
		if *all {
			namespace = ""
		}
		at, closing, err := p.open()
		if err != nil {
			return err
		}
		defer closing()
		found, err := at.Objects(cmd.Context(), kind, namespace, name)
		switch {
		case err != nil:
			return err
		case len(found) == 0 && name != "":
			return fmt.Errorf("%s: %w", config.Written{Kind: kind, Namespace: namespace, Name: name}.Title(), config.ErrNotThere)
		case len(found) == 0 && (*output == "table" || *output == "name"):
			cmd.PrintErrln("no objects")
			return nil
		}
		if err := show(cmd.OutOrStdout(), found); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
		return nil
	}
	return cmd
}
