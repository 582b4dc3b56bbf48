package config

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pilotlight/pilotlight/discovery/model"
)

// report collects the problems that rules find in one object.
type report struct {
	problemList
	places    places
	read      func() places // finds places that are not known yet: few objects need them
	index     index
	regexes   map[string]string // the faults of regular expressions that were read
	namespace string            // of the object
	dryRun    bool              // the object is a policy that keeps nobody out
	size      int               // of the programs of these, together
	ended     func() error      // not nil once nobody waits for the verdict
	steps     int               // fields, items and keys at which rules looked: what judging the object cost
}

// newPlaceless returns a report that asks whether a part has faults, and not at which lines.
func newPlaceless() *report { return &report{read: func() places { return places{{}} }} }

// done reports whether the object is not to be judged any further.
func (r *report) done() bool { return r.ended != nil && r.ended() != nil }

// found returns the place of a field, or the nearest place above it that the file has: rules also report missing
// fields. whole is whether it is the place of the field itself.
func (r *report) found(w *fieldPath) (at int, whole bool) {
	if r.index == nil {
		if r.places == nil {
			r.places = r.read()
		}
		r.index = r.places.index()
	}
	r.steps++
	if w.parent == nil {
		return 0, true
	}
	above, whole := r.found(w.parent)
	if !whole {
		return above, false
	}
	if at, ok := r.index[below{above, w.name, w.item}]; ok {
		return at, true
	}
	return above, false
}

// field is the place in an object to which a rule applies.
type field struct {
	report *report
	path   *fieldPath
}

// root is the field that has all others.
func (r *report) root() field { return field{r, &fieldPath{step: step{name: "spec"}}} }

// at is a field of a message, by its JSON name.
func (f field) at(name string) field { return f.down(step{name: name}) }

// key is the value of a map's key, which the author of the object chose.
func (f field) key(name string) field { return f.down(step{name: name, key: true}) }

func (f field) item(i int) field { return f.down(step{item: i + 1}) }

func (f field) down(s step) field {
	f.report.steps++
	return field{f.report, &fieldPath{f.path, s}}
}

// given reports whether the file has the field: protobuf does not distinguish 0 from a missing value.
func (f field) given() bool {
	_, whole := f.report.found(f.path)
	return whole
}

// errorf adds an error, which refuses the object.
func (f field) errorf(format string, args ...any) { f.add(Error, format, args) }

// warnf adds a warning about a setting that is not supported or has no effect.
func (f field) warnf(format string, args ...any) { f.add(Warning, format, args) }

func (f field) add(severity Severity, format string, args []any) {
	if !f.report.next(severity) {
		return
	}
	at, _ := f.report.found(f.path)
	f.report.keep(Problem{
		Line: f.report.places[at].line, Severity: severity, Path: f.path.String(),
		Message: fmt.Sprintf(format, short(args)...),
	})
}

// maxValue is how many bytes of a value a message shows.
const maxValue = 300

// short cuts the texts among the arguments of a message.
func short(args []any) []any {
	for i, a := range args {
		if err, is := a.(error); is {
			a = err.Error()
		}
		if s, is := a.(string); is && len(s) > maxValue {
			args[i] = strings.ToValidUTF8(s[:maxValue], "") + "…"
		}
	}
	return args
}

// step is one part of the path to a place in an object: a field of a message, the key of a map, or an item of a list.
type step struct {
	name string // of the field, or the key
	item int    // from 1
	key  bool   // the name is the choice of the object's author
}

// fieldPath is a path from the root of an object.
type fieldPath struct {
	parent *fieldPath // nil at the root
	step
}

// String returns "spec.http[0].timeout". Keys that could be read as more than a key are in brackets and quotes:
// spec.http[0].headers.request.set["x\ny"].
func (w *fieldPath) String() string {
	if w.parent == nil {
		return w.name
	}
	return w.parent.String() + w.text()
}

// maxKey is how many bytes of a key a path shows.
const maxKey = 100

func (s step) text() string {
	switch {
	case s.item > 0:
		return "[" + strconv.Itoa(s.item-1) + "]"
	case !s.key || isBare(s.name):
		return "." + s.name
	case len(s.name) > maxKey:
		return "[" + strconv.Quote(s.name[:maxKey]) + "…]"
	default:
		return "[" + strconv.Quote(s.name) + "]"
	}
}

// isBare reports whether a key is of visible ASCII without brackets, quotes and backslashes, and not long.
func isBare(key string) bool {
	for i := range len(key) {
		switch c := key[i]; {
		case c <= ' ' || c > '~', c == '[', c == ']', c == '"', c == '\'', c == '`', c == '\\':
			return false
		}
	}
	return key != "" && len(key) <= maxKey
}

// place is one node of an object: its line in the file, and the type that protobuf expects there.
type place struct {
	parent int  // index of the place above, -1 at the root
	step   step // from the place above, as the file writes it
	line   int
	typ    fieldType
	node   *yaml.Node
}

// places are the nodes of an object, parents before children. A path is built only for a fault.
type places []place

// path returns "spec.http[0].timeout", as the file writes it.
func (p places) path(i int) string {
	if p[i].parent < 0 {
		return p[i].step.name
	}
	return p.path(p[i].parent) + p[i].step.text()
}

// below is the name of a place for rules, below another one.
type below struct {
	parent int
	name   string
	item   int
}

// index finds places by their names.
type index map[below]int

func (p places) index() index {
	out := make(index, len(p))
	for i := range p {
		out[below{p[i].parent, p[i].jsonName(), p[i].step.item}] = i
	}
	return out
}

// lines returns the line of each field, for an object that begins at line from. A place on the same line as its parent
// has no entry of its own: its name becomes a part of the names below it.
func (p places) lines(from int) model.Lines {
	type kept struct {
		depth, line int    // of the nearest reported place at or above this one
		name        string // path below that place
	}
	all := make([]kept, len(p))
	var out []byte
	last := from
	for i := range p {
		above := kept{line: from}
		if i > 0 {
			above = all[p[i].parent]
		}
		all[i] = kept{above.depth, above.line, above.name + p[i].raw()}
		if p[i].line != above.line {
			out = model.AppendPlace(out, above.depth, p[i].line-last, all[i].name)
			last = p[i].line
			all[i] = kept{above.depth + 1, p[i].line, ""}
		}
	}
	return model.Lines(out)
}

// jsonName returns the name of a place in rules: a file may use target_port as well.
func (p place) jsonName() string {
	if f := p.typ.field; f != nil && !p.typ.element {
		return f.JSONName()
	}
	return p.step.name
}

// raw returns the name of a place in model.Lines, which are not shown: keys are as they are.
func (p place) raw() string {
	switch {
	case p.parent < 0:
		return p.step.name
	case p.step.item > 0:
		return p.step.text()
	default:
		return "." + p.jsonName()
	}
}
