package printer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/pilotlight/pilotlight/discovery/config"
)

// Form returns the function that prints objects in a form: table, name, yaml or json. The table has the reason of one type of
// condition in its last column.
func Form(name, condition string) (func(io.Writer, []config.Written) error, error) {
	switch name {
	case "table":
		return func(out io.Writer, objects []config.Written) error { return table(out, objects, condition) }, nil
	case "name":
		return names, nil
	case "yaml":
		return asYAML, nil
	case "json":
		return asJSON, nil
	default:
		return nil, errors.New("want table, name, yaml or json")
	}
}

// table prints a line for each object. condition is the type of the one whose reason is printed.
func table(out io.Writer, objects []config.Written, condition string) error {
	lines := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(lines, "NAMESPACE\tNAME\tREVISION\tCREATED\tACCEPTED")
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
			if c.Type == condition {
				accepted = c.Reason
			}
		}
		fmt.Fprintf(lines, "%s\t%s\t%s\t%s\t%s\n", w.Namespace, w.Name, w.Revision, created, accepted)
	}
	return lines.Flush()
}

func names(out io.Writer, objects []config.Written) error {
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

func asJSON(out io.Writer, objects []config.Written) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(list(objects))
}

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
