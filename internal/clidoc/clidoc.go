package clidoc

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pilotlight/pilotlight/internal/golden"
	"github.com/pilotlight/pilotlight/internal/setting"
)

// Check compares the pages in dir with the commands: each command has a page with the text of its --help, and no page
// describes a command that no longer exists.
func Check(t *testing.T, root *cobra.Command, dir string) {
	pages := map[string]bool{}
	for _, cmd := range All(root) {
		path := filepath.Join(dir, pageName(cmd))
		pages[path] = true
		t.Run(cmd.CommandPath(), func(t *testing.T) { golden.Document(t, path, page(cmd)) })
	}
	pages[filepath.Join(dir, root.Name()+"_settings.md")] = true
	found, err := filepath.Glob(filepath.Join(dir, root.Name()+"*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if !pages[path] {
			t.Errorf("%s describes no command: remove it", path)
		}
	}
}

// All returns a command and all below it.
func All(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, All(sub)...)
	}
	return all
}

func pageName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".md"
}

// page returns cobra's help of a command as Markdown.
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

// cell escapes a text for a table's cell.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }

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

// Fence is a fenced block of a page in Markdown.
type Fence struct {
	Line     int    // of its first line of text
	Language string // empty for a drawing
	Text     string
}

// shells are the languages of what a reader types: sh runs where tests run, console needs more than a machine, and a script is kept in a file.
var shells = []string{"sh", "console", "script", "bash", "shell"}

// Typed reports whether the block is commands.
func (f Fence) Typed() bool { return slices.Contains(shells, f.Language) }

var fence = regexp.MustCompile("(?m)^```(\\w*)\n((?s).*?)^```$")

// Fences are the fenced blocks of a page, in its order.
func Fences(page string) (fences []Fence) {
	for _, at := range fence.FindAllStringSubmatchIndex(page, -1) {
		fences = append(fences, Fence{1 + strings.Count(page[:at[4]], "\n"), page[at[2]:at[3]], page[at[4]:at[5]]})
	}
	return fences
}

// Pick returns the commands of a page that are these words, or else the only ones with these words in them.
func Pick(page, words string) (Fence, error) {
	var found []Fence
	for _, f := range Fences(page) {
		if f.Typed() && strings.TrimSpace(f.Text) == words {
			return f, nil
		}
		if f.Typed() && strings.Contains(f.Text, words) {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		return Fence{}, fmt.Errorf("%d blocks of commands have %q in them, want one", len(found), words)
	}
	return found[0], nil
}

// Command returns the commands that Pick finds on the page at a path, for a test that runs them.
func Command(t testing.TB, path, words string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Pick(string(text), words)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f.Text
}
