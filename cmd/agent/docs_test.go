package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
	"github.com/pilotlight/pilotlight/internal/manual"
)

// TestSettingsDocument compares docs/cli/settings.md with the table.
func TestSettingsDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Settings of agent proxy

Made from the table that the agent parses by; ` + "`make golden`" + ` rewrites it.

Each setting is a flag (` + "`--statusPort 15021`" + `), an environment variable, and a key of the YAML file that
` + "`--config`" + ` or ` + "`PILOTLIGHT_CONFIG`" + ` names. A flag beats a variable, a variable the file, the file the default; an empty
variable is one that is not set. ` + "`agent proxy --print-config`" + ` shows what counts and why.
`)
	b.WriteString(manual.Settings((&settings{}).table()))
	b.WriteString("\n## Other variables\n\nThey have no flag: the platform or the injector sets them.\n\n| variable | what it is |\n|---|---|\n")
	for _, v := range variables {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(v.name, ", ", "`, `"), v.what)
	}
	b.WriteString("\n## Flags of 2018 that mean nothing any more\n\nThey are taken, and told once.\n\n| flag | instead |\n|---|---|\n")
	for _, r := range retired {
		fmt.Fprintf(&b, "| `--%s` | %s |\n", r.name, r.instead)
	}
	golden.Document(t, "../../docs/cli/settings.md", b.String())
}
