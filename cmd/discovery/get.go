package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pilotlight/pilotlight/discovery/config"
	configs "github.com/pilotlight/pilotlight/discovery/config/kubernetes"
	"github.com/pilotlight/pilotlight/internal/setting"
)

func newGet() *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use:   "get KIND [NAME]",
		Short: "Print the objects of a kind that an API server or a directory has",
		Long: "Print the Istio objects of a kind: VirtualService, its plural or its short name vs. NAMESPACE in the output is where an object is, and REVISION\n" +
			"changes with it. Exits 1 if an object that is named is not there.",
		Example: "  discovery get virtualservices -A\n  discovery get vs reviews -o yaml --configDir /etc/mesh",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return setting.Usage("discovery", fmt.Errorf("%d arguments, want KIND, or KIND and NAME", len(args)))
			}
			return nil
		},
	}
	all := cmd.Flags().BoolP("all-namespaces", "A", false, "objects of all namespaces")
	output := cmd.Flags().StringP("output", "o", "table", "form of the output: table, name, yaml or json")
	p.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		show, known := map[string]func(io.Writer, []config.Written) error{"table": asTable, "name": asNames, "yaml": asYAML, "json": asJSON}[*output]
		if !known {
			return setting.Usage("discovery", fmt.Errorf("--output %s: want table, name, yaml or json", *output))
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

func asTable(out io.Writer, objects []config.Written) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NAMESPACE\tNAME\tREVISION\tCREATED\tACCEPTED")
	for _, w := range objects {
		var o struct {
			Metadata struct{ CreationTimestamp time.Time }
			Status   struct {
				Conditions []struct{ Type, Reason string }
			}
		}
		_ = json.Unmarshal(w.JSON, &o) // missing fields stay empty
		created, accepted := "-", "-"
		if !o.Metadata.CreationTimestamp.IsZero() {
			created = o.Metadata.CreationTimestamp.UTC().Format(time.RFC3339)
		}
		for _, c := range o.Status.Conditions {
			if c.Type == configs.ConditionType {
				accepted = c.Reason
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", w.Namespace, w.Name, w.Revision, created, accepted)
	}
	return table.Flush()
}

func asNames(out io.Writer, objects []config.Written) error {
	for _, w := range objects {
		if _, err := fmt.Fprintln(out, w.Title()); err != nil {
			return err
		}
	}
	return nil
}

// list returns Kubernetes' List of objects, or the object if there is only one.
func list(objects []config.Written) any {
	if len(objects) == 1 {
		return json.RawMessage(objects[0].JSON)
	}
	items := []json.RawMessage{}
	for _, w := range objects {
		items = append(items, w.JSON)
	}
	return struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}{"v1", "List", items}
}

func asJSON(out io.Writer, objects []config.Written) error { return writeJSON(out, list(objects)) }

func asYAML(out io.Writer, objects []config.Written) error {
	text, err := json.Marshal(list(objects))
	if err != nil {
		return err
	}
	text, err = config.YAML(text)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}
