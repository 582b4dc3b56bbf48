package config

import (
	_ "embed" // verdicts.txt
	"strings"
)

//go:embed verdicts.txt
var verdictTable string

// Verdict is a difference from the verdict of Istio's validation that is meant.
type Verdict struct {
	What, Istio, Here string
	Cases             []string // of Istio's tables
}

// Verdicts returns the differences that are meant, which docs/compat.md lists.
func Verdicts() (out []Verdict) {
	for line := range strings.Lines(verdictTable) {
		line = strings.TrimRight(line, "\n")
		switch name, isCase := strings.CutPrefix(line, "\t"); {
		case isCase:
			out[len(out)-1].Cases = append(out[len(out)-1].Cases, name)
		case line != "" && line[0] != '#':
			what, rest, _ := strings.Cut(line, " | ")
			istio, here, _ := strings.Cut(rest, " | ")
			out = append(out, Verdict{What: what, Istio: istio, Here: here})
		}
	}
	return out
}
