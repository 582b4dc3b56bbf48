package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/internal/clidoc"
	"github.com/pilotlight/pilotlight/internal/golden"
)

func TestDocs(t *testing.T) { clidoc.Check(t, rootCommand(command{}), "../../docs/cli") }

// Each flag in README is a flag of agent, discovery or pod-init.
func TestREADMENamesFlagsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, cmd := range clidoc.All(rootCommand(command{})) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	for files, flag := range map[string]string{
		"../discovery/*.go":              `"([A-Za-z]+)"`, // a flag's name stands in quotes
		"../../envoy-tools/pod-init":     `--([a-z-]+)`,
		"../../envoy-tools/pod-init.d/*": `--([a-z-]+)`,
	} {
		paths, err := filepath.Glob(files)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %q, %v", files, paths, err)
		}
		for _, path := range paths {
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(flag).FindAllStringSubmatch(string(source), -1) {
				known[match[1]] = true
			}
		}
	}
	mentioned := regexp.MustCompile("`--([A-Za-z-]+)").FindAllStringSubmatch(string(text), -1)
	for _, match := range mentioned {
		if !known[match[1]] {
			t.Errorf("README.md names --%s, which no command has", match[1])
		}
	}
	if len(mentioned) == 0 {
		t.Error("README.md names no flag: is the pattern right?")
	}
}

// TestSettingsDocument compares docs/cli/settings.md with the table.
func TestSettingsDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Settings of agent proxy

Made from the table that the agent parses by; ` + "`make golden`" + ` rewrites it.

Each setting is a flag (` + "`--statusPort 15021`" + `), an environment variable, and a key of the YAML file that
` + "`--config`" + ` or ` + "`PILOTLIGHT_CONFIG`" + ` names. A flag beats a variable, a variable the file, the file the default; an empty
variable is one that is not set. ` + "`agent proxy --print-config`" + ` shows what counts and why.
`)
	b.WriteString(clidoc.Settings((&settings{}).table()))
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
