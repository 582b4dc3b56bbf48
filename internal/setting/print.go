package setting

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Effective writes a line for each setting: its value and where the value came from.
func (t Table) Effective(w io.Writer, origins Origins) error {
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range t.Settings {
		from := string(Default)
		if o := origins[s.Name]; o.Set() {
			from = string(o.Source) + " " + o.Name
		} else if o.Source == "" && o.Name != "" {
			from = o.Name // the value was computed
		}
		fmt.Fprintf(lines, "%s\t%s\t%s\n", s.Name, orEmpty(s.Kind.show()), from)
	}
	return lines.Flush()
}

func orEmpty(value string) string {
	if value == "" {
		return `""`
	}
	return value
}

// Derive sets a setting that was not given to a computed value, and records how it was computed. A value that was given
// stays. The setting must allow the value.
func (t Table) Derive(o Origins, name, value, how string) error {
	if o[name].Set() {
		return nil
	}
	for _, s := range t.Settings {
		if s.Name != name {
			continue
		}
		if err := s.Kind.parse(value); err != nil {
			return s.fault(Origin{Name: how}, value)
		}
		o[name] = Origin{Name: how}
		return nil
	}
	return fmt.Errorf("no setting is called %s", name)
}

// Markdown writes the table, a section for each group.
func (t Table) Markdown() string {
	var b strings.Builder
	group := ""
	for _, s := range t.Settings {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n| setting | variable | default | allowed | what it is |\n|---|---|---|---|---|\n", group)
		}
		variables := "`" + t.Variable(s.Name) + "`"
		for _, name := range s.Also {
			variables += ", `" + name + "`"
		}
		value := s.Default
		if value != "" {
			value = "`" + value + "`"
		}
		allowed := s.Kind.Allowed
		if s.Kind.Example != "" {
			allowed += ", such as " + s.Kind.Example
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.Name, variables, value, cell(allowed), cell(s.Help))
	}
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
