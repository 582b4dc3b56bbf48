package lab

import (
	"os"
	"regexp"
	"testing"
)

// Code returns the code of a language on a page of the documentation, in its order.
func Code(t testing.TB, file, language string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(Path(file))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		out = append(out, b[1])
	}
	if len(out) == 0 {
		t.Fatalf("%s has no block of %s", file, language)
	}
	return out
}
