package main

import (
	"testing"

	"github.com/pilotlight/pilotlight/internal/golden"
	"github.com/pilotlight/pilotlight/internal/manual"
)

func TestDocs(t *testing.T) { manual.Check(t, newRoot(), "../../docs/cli") }

// TestSettingsDocument compares docs/cli/discovery_settings.md with the table.
func TestSettingsDocument(t *testing.T) {
	golden.Document(t, "../../docs/cli/discovery_settings.md", `# Settings of discovery serve

Made from the table that discovery parses by; `+"`make golden`"+` rewrites it.

Each setting is a flag (`+"`--configDir mesh/`"+`), an environment variable, and a key of the YAML file that
`+"`--config`"+` or `+"`PILOTLIGHT_CONFIG`"+` names. A flag beats a variable, a variable the file, the file the default; an empty
variable counts as not set. `+"`discovery serve --print-config`"+` shows each value and where it came from.
`+manual.Settings(newSettings().table()))
}
