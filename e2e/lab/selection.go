package lab

import (
	"fmt"
	"os"
	"strings"
)

// Selection is a row of the table that says which Pods get a sidecar.
type Selection struct {
	Namespace, Pod map[string]string // labels
	Injected       bool
}

// Selections reads that table: tests compare the selectors of the webhooks, the injector and a real API server with it.
func Selections() (out []Selection, err error) {
	path := Path("discovery", "inject", "testdata", "selection.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var pods []map[string]string
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		words := strings.Fields(strings.TrimPrefix(line, "#"))
		if strings.HasPrefix(line, "#") {
			pods = nil
			for _, word := range words { // the last line with # counts
				pods = append(pods, labelsOf(word))
			}
			continue
		}
		if len(words) != len(pods)+1 {
			return nil, fmt.Errorf("%s:%d: has %d words, want %d", path, n+1, len(words), len(pods)+1)
		}
		for i, word := range words[1:] {
			if word != "yes" && word != "no" {
				return nil, fmt.Errorf("%s:%d: is %q, want yes or no", path, n+1, word)
			}
			out = append(out, Selection{labelsOf(words[0]), pods[i], word == "yes"})
		}
	}
	if len(out) < 30 {
		return nil, fmt.Errorf("%s: has %d cases", path, len(out))
	}
	return out, nil
}

func labelsOf(word string) map[string]string {
	names := strings.NewReplacer("i=", "istio-injection=", "r=", "istio.io/rev=", "s=", "sidecar.istio.io/inject=")
	out := map[string]string{}
	for pair := range strings.SplitSeq(word, ",") {
		if name, value, found := strings.Cut(names.Replace(pair), "="); found {
			out[name] = value
		}
	}
	return out
}
