package manual

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

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
