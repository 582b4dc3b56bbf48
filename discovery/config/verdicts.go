package config

import (
	_ "embed" // verdicts.txt, simulated.txt, policies.txt
	"strings"
)

var (
	//go:embed verdicts.txt
	verdictTable string
	//go:embed simulated.txt
	simulatedTable string
	//go:embed policies.txt
	policiesTable string
)

// Difference is a difference from Istio that is meant. docs/compat.md lists all.
type Difference struct {
	What, Istio, Here string
	Cases             []string // of Istio's own tests, which show it
}

// Verdicts returns the differences from the verdicts of Istio's validation.
func Verdicts() []Difference { return differences(verdictTable) }

// Simulated returns the differences from Istio in what becomes of requests, and in the configuration of a proxy.
func Simulated() []Difference { return differences(simulatedTable) }

// Policies returns the differences from Istio in the rules that Envoy gets for an AuthorizationPolicy.
func Policies() []Difference { return differences(policiesTable) }

func differences(table string) (out []Difference) {
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, "\n")
		switch name, isCase := strings.CutPrefix(line, "\t"); {
		case isCase:
			out[len(out)-1].Cases = append(out[len(out)-1].Cases, name)
		case line != "" && line[0] != '#':
			what, rest, _ := strings.Cut(line, " | ")
			istio, here, _ := strings.Cut(rest, " | ")
			out = append(out, Difference{What: what, Istio: istio, Here: here})
		}
	}
	return out
}
