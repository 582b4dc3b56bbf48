package pilotlight_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pilotlight/pilotlight/internal/clidoc"
)

const troubleshooting = "docs/troubleshooting.md"

// symptom is a row of the table of docs/troubleshooting.md, and section what stands under a heading.
type (
	symptom struct{ words, anchor, command, names string }
	section struct{ anchor, text string }
)

var symptomRow = regexp.MustCompile(`(?m)^\| (?:\[(.*)\]\(#(\S+)\)|(.*?)) \| (.*?) \| (.*) \|$`)

// symptomsOf are the rows of the table, and the sections of the page in its order, without the last, which stops what the page has started.
func symptomsOf(page string) (rows []symptom, sections []section) {
	code := regexp.MustCompile("`([^`]+)`")
	for _, m := range symptomRow.FindAllStringSubmatch(page, -1) {
		if first := code.FindStringSubmatch(m[4]); first != nil {
			rows = append(rows, symptom{m[1] + m[3], m[2], first[1], m[5]})
		}
	}
	for _, part := range strings.Split(page, "\n## ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		sections = append(sections, section{anchorOf(title), text})
	}
	return rows, sections[:max(0, len(sections)-1)]
}

// anchorOf is the anchor that a heading has where Markdown is shown.
func anchorOf(title string) string {
	return strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

var fileAndLine = regexp.MustCompile(`\w\.yaml:\d+`)

// Each symptom leads to the section that reproduces it, in the order of the table. There the first command of its row is typed, with what it prints; and where a row
// promises a line, the output has one. That the commands print this, e2e/docs shows.
func TestEachSymptomIsReproduced(t *testing.T) {
	rows, sections := symptomsOf(shown(t)[troubleshooting])
	if len(rows) < 9 {
		t.Fatalf("%d rows, is the pattern right? %q", len(rows), rows)
	}
	var want, got []string
	for _, r := range rows {
		want = append(want, r.anchor)
	}
	for _, s := range sections {
		got = append(got, s.anchor)
	}
	if !slices.Equal(want, got) {
		t.Fatalf("the rows lead to %q, and the sections are %q", want, got)
	}
	for i, r := range rows {
		if fault := reproduced(r, sections[i].text); fault != "" {
			t.Errorf("%s: %s: %s", troubleshooting, r.words, fault)
		}
	}
}

// reproduced says what a section lacks for its row.
func reproduced(r symptom, text string) string {
	typed, printed, lines := "", false, false
	for _, f := range clidoc.Fences(text) {
		switch f.Language {
		case "sh":
			typed = f.Text
		case "text":
			printed = printed || strings.Contains(typed, r.command)
			lines = lines || fileAndLine.MatchString(f.Text)
		}
	}
	switch {
	case !printed:
		return "no block types " + r.command + " and shows what it prints"
	case strings.Contains(r.names, "line") && !lines:
		return "no output has a file and line"
	}
	return ""
}

func TestSymptomsOf(t *testing.T) {
	const page = "# P\n\n| what | first command | it names |\n|---|---|---|\n| [a, `B`](#the-one) | `x y`, there | the line |\n| c | `z` or `w` | d |\n\n" +
		"## The, one\n\n```sh\nx y | head\n```\n\n```text\nat m.yaml:3\n```\n\n## Stop\n"
	rows, sections := symptomsOf(page)
	if want := []symptom{{"a, `B`", "the-one", "x y", "the line"}, {"c", "", "z", "d"}}; !slices.Equal(rows, want) {
		t.Errorf("got %q, want %q", rows, want)
	}
	if len(sections) != 1 || sections[0].anchor != "the-one" {
		t.Fatalf("got %q", sections)
	}
	for want, r := range map[string]symptom{
		"": rows[0], "no block types z and shows what it prints": rows[1],
	} {
		if got := reproduced(r, sections[0].text); got != want {
			t.Errorf("%q: got %q, want %q", r.words, got, want)
		}
	}
	if got := reproduced(rows[0], strings.Replace(sections[0].text, "m.yaml:3", "m.yaml", 1)); got != "no output has a file and line" {
		t.Errorf("without a line: got %q", got)
	}
}
