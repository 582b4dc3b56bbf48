package lab

import (
	"os"
	"testing"

	"github.com/pilotlight/pilotlight/internal/manual"
)

// Code returns the code of a language on a page of the documentation, in its order.
func Code(t testing.TB, page, language string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(Path(page))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range manual.Fences(string(text)) {
		if f.Language == language {
			out = append(out, f.Text)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has no block of %s", page, language)
	}
	return out
}

// Command returns the commands of a page that are these words, or else the only ones with these words in them.
func Command(t testing.TB, page, words string) string {
	t.Helper()
	return manual.Command(t, Path(page), words)
}
