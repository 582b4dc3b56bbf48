package config

import "fmt"

// maxNamed is how many errors, and how many warnings, of one object are named. The others are counted: an object can
// have as many as it has fields.
const maxNamed = 100

// tally collects the problems of one object.
type tally struct {
	named  []Problem
	counts map[Severity]int
}

// next counts a problem. It reports whether the problem is to be named, by keep.
func (t *tally) next(s Severity) bool {
	if t.counts == nil {
		t.counts = map[Severity]int{}
	}
	t.counts[s]++
	return t.counts[s] <= maxNamed
}

func (t *tally) keep(p Problem) { t.named = append(t.named, p) }

// all returns the problems that are named, and one for the others, at a line.
func (t *tally) all(line int, path string) []Problem {
	more := func(s Severity) int { return max(t.counts[s]-maxNamed, 0) }
	errors, warnings := more(Error), more(Warning)
	rest := Problem{Line: line, Severity: Error, Path: path}
	switch {
	case errors > 0 && warnings > 0:
		rest.Message = fmt.Sprintf("has %d more errors and %d more warnings, which are not named", errors, warnings)
	case errors > 0:
		rest.Message = fmt.Sprintf("has %d more errors, which are not named", errors)
	case warnings > 0:
		rest.Severity, rest.Message = Warning, fmt.Sprintf("has %d more warnings, which are not named", warnings)
	default:
		return t.named
	}
	return append(t.named, rest)
}
