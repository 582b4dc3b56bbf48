package config

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/pilotlight/pilotlight/discovery/model"
	"github.com/pilotlight/pilotlight/internal/spelling"
)

// Severity is the consequence of a problem.
type Severity string

const (
	Error   Severity = "error"   // the object is refused
	Warning Severity = "warning" // the object is served without the setting that the message names
)

// Problem is one fault of a file. It is comparable, so that the same fault is reported once.
type Problem struct {
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"` // from 1; 0 is the file as a whole
	Severity Severity `json:"severity"`
	Object   string   `json:"object,omitempty"` // "VirtualService default/reviews"
	Path     string   `json:"path,omitempty"`   // "spec.http[0].route[1].weight", as the file writes it
	Message  string   `json:"message"`
}

// String is a compiler's line, which editors follow: "mesh.yaml:12: error: VirtualService default/reviews:
// spec.http[0].timeout: is …".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	for _, part := range []string{string(p.Severity), p.Object, p.Path, p.Message} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	return model.OneLine(strings.TrimPrefix(b.String(), ": "))
}

// shown returns the problem with texts that a terminal and a log can show: parts of them are the choice of the author
// of the object.
func (p Problem) shown() Problem {
	p.Object, p.Path, p.Message = model.OneLine(p.Object), model.OneLine(p.Path), model.OneLine(p.Message)
	return p
}

// Log logs the problem: as an error if the object is refused, else as a warning.
func (p Problem) Log(to Logger) {
	args := []any{"object", p.Object, "field", p.Path, "reason", p.Message}
	if p.File != "" {
		args = append([]any{"file", p.File, "line", p.Line}, args...)
	}
	if p.Severity == Error {
		to.Error("configuration problem", args...)
		return
	}
	to.Warn("configuration problem", args...)
}

// Logger is the part of a *slog.Logger that a problem needs.
type Logger interface {
	Error(message string, args ...any)
	Warn(message string, args ...any)
}

// Warnings returns what an object keeps of the problems of its reading.
func Warnings(problems []Problem) *model.Warnings {
	var out []model.Warning
	for _, p := range problems {
		if p.Severity == Warning {
			out = append(out, model.Warning{Path: p.Path, Message: p.Message})
		}
	}
	return model.WarningsOf(out)
}

// OfNotes returns notes as warnings, without those that reading the objects has told.
func OfNotes(notes []model.Note) []Problem {
	var out []Problem
	for _, n := range notes {
		if n.Code != model.Warned {
			out = append(out, OfNote(n))
		}
	}
	return out
}

// OfNote returns one note as a warning.
func OfNote(n model.Note) Problem {
	return Problem{
		File: n.Meta.Origin.File, Line: n.Line(), Severity: Warning, Object: title(n.Meta), Path: n.Path,
		Message: n.Message,
	}.shown()
}

// HasErrors reports whether any problem is an error.
func HasErrors(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == Error })
}

// byLine sorts problems by their place in the file.
func byLine(problems []Problem) {
	sort.SliceStable(problems, func(i, j int) bool { return problems[i].Line < problems[j].Line })
}

// suggestion ends the message about an unknown name. It is made only for a problem that is named.
type suggestion struct {
	name  string
	known []string
}

func suggest(name string, known []string) suggestion { return suggestion{name, known} }

// String returns the known name that is nearest to the unknown one, else all of them.
func (s suggestion) String() string {
	if near := spelling.Nearest(s.name, s.known); near != "" {
		return `, did you mean "` + near + `"?`
	}
	if len(s.known) == 0 {
		return ""
	}
	return ", want one of " + strings.Join(slices.Sorted(slices.Values(s.known)), ", ")
}

// maxNamed is how many errors, and how many warnings, of one object are named. The others are counted: an object can
// have as many as it has fields.
const maxNamed = 100

// problemList collects the problems of one object.
type problemList struct {
	named  []Problem
	counts map[Severity]int
}

// next counts a problem. It reports whether the problem is to be named, by keep.
func (t *problemList) next(s Severity) bool {
	if t.counts == nil {
		t.counts = map[Severity]int{}
	}
	t.counts[s]++
	return t.counts[s] <= maxNamed
}

func (t *problemList) keep(p Problem) { t.named = append(t.named, p) }

// all returns the problems that are named, and one for the others, at a line.
func (t *problemList) all(line int, path string) []Problem {
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
