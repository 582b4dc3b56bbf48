package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/internal/golden"
)

const docs = "../../docs/cli"

// Each command has a page in docs/cli that says what its --help says, and no page is of a command that is gone.
func TestDocs(t *testing.T) {
	pages := map[string]bool{}
	for _, cmd := range allCommands(rootCommand(command{})) {
		path := filepath.Join(docs, pageName(cmd))
		pages[path] = true
		t.Run(cmd.CommandPath(), func(t *testing.T) { golden.Document(t, path, page(cmd)) })
	}
	found, err := filepath.Glob(filepath.Join(docs, "agent*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if !pages[path] {
			t.Errorf("%s is of no command: remove it", path)
		}
	}
}

func allCommands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, allCommands(sub)...)
	}
	return all
}

func pageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".md"
}

// page is Markdown of what cobra prints.
func page(cmd *cobra.Command) string {
	var out strings.Builder
	fmt.Fprintf(&out, "<!-- Made from the command's own help by make golden. -->\n# %s\n\n", cmd.CommandPath())
	if cmd.Long != "" {
		fmt.Fprintf(&out, "%s.\n\n%s\n\n", cmd.Short, cmd.Long)
	} else {
		fmt.Fprintf(&out, "%s.\n\n", cmd.Short)
	}
	if cmd.Runnable() && !cmd.HasSubCommands() {
		fmt.Fprintf(&out, "    %s\n\n", cmd.UseLine())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&out, "## Examples\n\n```\n%s\n```\n\n", regexp.MustCompile(`(?m)^  `).ReplaceAllString(cmd.Example, ""))
	}
	if cmd.HasSubCommands() {
		out.WriteString("## Commands\n\n| command | what |\n|---|---|\n")
		for _, sub := range cmd.Commands() {
			fmt.Fprintf(&out, "| [%s](%s) | %s |\n", sub.CommandPath(), pageName(sub), cell(sub.Short))
		}
		out.WriteString("\n")
	}
	if cmd.HasAvailableLocalFlags() {
		out.WriteString("## Flags\n\n| flag | default | what |\n|---|---|---|\n")
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				fmt.Fprintln(&out, flagRow(f))
			}
		})
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func flagRow(f *pflag.Flag) string {
	name := "`--" + f.Name + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	value := f.DefValue
	if value != "" {
		value = "`" + value + "`"
	}
	kind, usage := pflag.UnquoteUsage(f)
	if kind != "" {
		name += " " + kind
	}
	return fmt.Sprintf("| %s | %s | %s |", name, cell(value), cell(usage))
}

// cell keeps a text inside a table's cell.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }

// README speaks of no flag that no command has.
func TestREADMENamesFlagsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, cmd := range allCommands(rootCommand(command{})) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	mentioned := regexp.MustCompile("`--([A-Za-z-]+)").FindAllStringSubmatch(string(text), -1)
	for _, match := range mentioned {
		if !known[match[1]] {
			t.Errorf("README.md names --%s, which no command of the agent has", match[1])
		}
	}
	if len(mentioned) == 0 {
		t.Error("README.md names no flag: is the pattern right?")
	}
}
