package manual

import (
	"fmt"
	"strings"

	"github.com/pilotlight/pilotlight/internal/setting"
)

// Settings returns a table of settings as Markdown, a section for each group.
func Settings(t setting.Table) string {
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
